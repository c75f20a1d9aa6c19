"""Metadata: strict when read, and a fingerprint that changes with the meaning of the tokens and with nothing else."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mindformers_megatron.errors import DataError
from mindformers_megatron.format.index import read_index
from mindformers_megatron.format.metadata import (
    Metadata,
    SourceInfo,
    TokenizerInfo,
    check_metadata,
    read_metadata,
    write_metadata,
)

TOKENIZER = TokenizerInfo(
    name="models/qwen",
    kind="HuggingFaceTokenizer",
    files={"tokenizer.json": "aa" * 32},
    library="tokenizers",
    library_version="0.21.0",
    engine="hf",
    engine_version="0.21.0",
)
METADATA = Metadata(
    tokenizer=TOKENIZER,
    vocab_size=32_000,
    eod_id=2,
    dtype="uint16",
    documents=5,
    sequences=6,
    tokens=11,
    seq_length=2048,
    sources=(SourceInfo(path="语料/wiki.jsonl", size=12, sha256="bb" * 32), SourceInfo(path="-", size=3, sha256=None)),
    bin_sha256="cc" * 32,
    idx_sha256="dd" * 32,
    options={"append_eod": True, "json_key": "text"},
    created="2026-01-10T12:00:00Z",
    program_version="0.1.0",
)


def refusal(prefix: str) -> str:
    with pytest.raises(DataError) as caught:
        read_metadata(prefix)
    assert "\n" not in str(caught.value)
    assert f"{prefix}.metadata.json" in str(caught.value)
    return str(caught.value)


def write_changed(prefix: str, **changes: Any) -> None:
    values = json.loads(METADATA.to_json())
    for name, value in changes.items():
        target, _, last = name.rpartition("__")
        inner = values[target] if target else values
        if value is KeyError:
            del inner[last]
        else:
            inner[last] = value
    Path(prefix + ".metadata.json").write_text(json.dumps(values))


def test_metadata_comes_back_as_it_was(pair: str) -> None:
    assert read_metadata(pair) is None
    write_metadata(pair, METADATA)
    assert read_metadata(pair + ".bin") == METADATA
    check_metadata(METADATA, read_index(pair))


@given(st.text(st.characters(codec=None, exclude_categories=())), st.text())
def test_names_of_any_characters_come_back(path: str, name: str) -> None:
    metadata = dataclasses.replace(
        METADATA,
        tokenizer=dataclasses.replace(TOKENIZER, name=name),
        sources=(SourceInfo(path=path, size=0, sha256=None),),
    )
    data = metadata.to_json().encode("utf-8", "backslashreplace")
    assert Metadata.from_json(data, "x") == metadata


MEANING = {
    "vocab_size": 32_001,
    "eod_id": None,
    "dtype": "int32",
    "documents": 6,
    "sequences": 7,
    "tokens": 12,
    "bin_sha256": "ee" * 32,
    "idx_sha256": "ee" * 32,
    "options": {"append_eod": False, "json_key": "text"},
    "tokenizer": dataclasses.replace(TOKENIZER, files={"tokenizer.json": "ee" * 32}),
}
NO_MEANING = {
    "seq_length": None,
    "sources": (),
    "created": "2027-01-01T00:00:00Z",
    "program_version": "9",
    "tokenizer": dataclasses.replace(
        TOKENIZER,
        name="a copy",
        files={"renamed.json": "aa" * 32},
        library_version="1",
        engine="gigatoken",
        engine_version="0.10",
    ),
}


@pytest.mark.parametrize("field", MEANING)
def test_the_fingerprint_changes_with_what_changes_the_tokens(field: str) -> None:
    changed = dataclasses.replace(METADATA, **{field: MEANING[field]})
    assert changed.fingerprint != METADATA.fingerprint
    about_ids = field in ("vocab_size", "eod_id", "tokenizer")
    assert (changed.tokenizer_fingerprint != METADATA.tokenizer_fingerprint) == about_ids


@pytest.mark.parametrize("field", NO_MEANING)
def test_the_fingerprint_does_not_change_with_time_place_and_way_of_work(field: str) -> None:
    changed = dataclasses.replace(METADATA, **{field: NO_MEANING[field]})
    assert changed != METADATA
    assert changed.fingerprint == METADATA.fingerprint
    assert changed.tokenizer_fingerprint == METADATA.tokenizer_fingerprint


def test_fingerprints_are_the_same_in_every_version() -> None:
    assert METADATA.fingerprint == "e688b76c41c896ab7b564bc74d72894e64e2724345e4901869b35c0f345dd1d0"
    assert METADATA.tokenizer_fingerprint == "c16f7e2c84b5f94dee73cca3b8a6c1b431eb4bbd0ac9a95e6f9c857caafe6b4f"


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (b"", "is not JSON"),
        (b"{", "is not JSON"),
        (b"\xff\xfe{}", "is not JSON"),
        (b"[" * 100_000, "is not JSON"),
        (b"9" * 10_000, "is not JSON"),
        (b"[]", "is a list, expected an object"),
        (b"null", "is null, expected an object"),
        (b'{"seq_length": 2048, "vocab_size": 32000, "tokenizer_type": "sentencepiece"}', "no field schema_version"),
        (b'{"schema_version": 2}', "update"),
        (b'{"schema_version": 0}', "expected 1"),
        (b'{"schema_version": true}', "true or false, expected an integer"),
        (b'{"schema_version": "1"}', "a text, expected an integer"),
    ],
)
def test_what_is_not_our_metadata_is_refused_in_one_line(pair: str, text: bytes, complaint: str) -> None:
    Path(pair + ".metadata.json").write_bytes(text)
    assert complaint in refusal(pair)


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"documents": -1}, "documents is -1"),
        ({"documents": 1.5}, "documents is a fraction"),
        ({"documents": None}, "documents is null"),
        ({"vocab_size": "32000"}, "vocab_size is a text"),
        ({"tokenizer": []}, "tokenizer is a list"),
        ({"tokenizer__kind": 3}, "tokenizer.kind is an integer"),
        ({"tokenizer__files": {"a\nb": 1}}, r"files['a\nb'] is an integer"),
        ({"sources": {}}, "sources is an object"),
        ({"sources": [{"path": "a", "size": 1, "sha256": 5}]}, "sources[0].sha256 is an integer"),
        ({"sources": [{"path": "a", "size": 1}, 3]}, "sources[1] is an integer"),
        ({"options": {"x": float("nan")}}, "options hold what JSON cannot"),
        ({"tokens": 12}, "it was edited"),
        ({"fingerprint": "a\nb"}, "it was edited"),
        ({"fingerprint": KeyError}, "no field fingerprint"),
        ({"created": KeyError}, "no field created"),
    ],
)
def test_a_damaged_field_is_named(pair: str, changes: dict[str, Any], complaint: str) -> None:
    write_changed(pair, **changes)
    assert complaint in refusal(pair)


def test_every_field_but_the_optional_ones_is_needed(pair: str) -> None:
    for name in json.loads(METADATA.to_json()):
        write_changed(pair, **{name: KeyError})
        if name in ("vocab_size", "eod_id", "seq_length"):
            continue
        assert f"no field {name}" in refusal(pair)


@pytest.mark.parametrize(
    ("field", "value", "found"),
    [("dtype", "int32", "uint16"), ("documents", 4, 5), ("sequences", 7, 6), ("tokens", 12, 11)],
)
def test_metadata_of_another_pair_is_refused_with_both_values(
    pair: str, field: str, value: object, found: object
) -> None:
    with pytest.raises(DataError) as caught:
        check_metadata(dataclasses.replace(METADATA, **{field: value}), read_index(pair))
    message = str(caught.value)
    assert f"{field} {value!r}" in message
    assert f"has {found!r}" in message
