"""Documents made anew from where provenance says they come from are those of the pair, or nothing is made."""

import bz2
import gzip
import json
import lzma
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pairs import GOLDEN

from mindformers_megatron.errors import ConfigError, DataError
from mindformers_megatron.format.documents import read_documents
from mindformers_megatron.format.index import read_index
from mindformers_megatron.format.metadata import read_metadata, write_metadata
from mindformers_megatron.format.paths import docs_path, metadata_path
from mindformers_megatron.format.verify.pair import verify_pair
from mindformers_megatron.format.verify.spans import numbers_of
from mindformers_megatron.tokenization.preprocess import preprocess
from mindformers_megatron.tokenization.preprocess_spec import PreprocessSpec
from mindformers_megatron.tokenization.retokenize import Retokenizer, compare_with_sources
from mindformers_megatron.tokenization.sentences import SentenceSpec
from mindformers_megatron.tokenization.tokenizer_files import TokenizerSpec

TOKENIZER = GOLDEN / "preprocess" / "tokenizer"
RECORDS: list[dict[str, Any]] = [
    {"id": "a", "text": "One sentence. Another one! And a third?"},
    {"id": None, "text": ""},
    {"id": 7, "text": ["First.", "", "Second part."]},
    {"text": "多语言的文本。第二句。", "meta": {"source": "zh"}},
    *({"id": f"r{number}", "text": f"Record {number}. " * (number % 5)} for number in range(300)),
]


def as_lines(records: list[dict[str, Any]]) -> bytes:
    # A byte order mark, blank lines and other line ends, as raw files have them.
    lines = [json.dumps(record, ensure_ascii=False).encode() + b"\n" for record in records]
    return b"\xef\xbb\xbf" + b"\r\n\n".join([b"".join(lines[:50]), b"".join(lines[50:])])


def write_parquet(path: Path) -> None:
    rows = [record for record in RECORDS if isinstance(record["text"], str)]
    columns = {"id": [str(row.get("id")) for row in rows], "text": [row["text"] for row in rows]}
    pq.write_table(pa.table(columns), path, row_group_size=70)


def write_input(path: Path) -> Path:
    compress: dict[str, Callable[[bytes], bytes]] = {".gz": gzip.compress, ".xz": lzma.compress, ".bz2": bz2.compress}
    if path.suffix == ".parquet":
        write_parquet(path)
    else:
        path.write_bytes(compress.get(path.suffix, bytes)(as_lines(RECORDS)))
    return path


def make_pair(folder: Path, name: str = "raw.jsonl", **options: Any) -> str:
    tokenizer = options.pop("tokenizer", TokenizerSpec(path=TOKENIZER))
    spec = PreprocessSpec(
        inputs=[write_input(folder / name)],
        output_prefix=str(folder / "pair"),
        tokenizer=tokenizer,
        engine="hf",
        workers=1,
        **options,
    )
    (prefix,) = preprocess(spec).pairs
    return prefix


def assert_remade(prefix: str, retokenizer: Retokenizer) -> None:
    """All documents, and then single ones here and there, forwards and backwards."""
    index = read_index(prefix)
    count = index.num_documents
    ranges = [(0, count), *((place, place + 1) for place in [3, 2, 0, 150, 151, count - 1, 60])]
    for begin, end in ranges:
        (found,) = read_documents(index, begin, end)
        made = list(retokenizer.remake(begin, end))
        assert made[0].first == begin
        for name in ("tokens", "lengths", "sequences"):
            np.testing.assert_array_equal(np.concatenate([getattr(part, name) for part in made]), getattr(found, name))


@pytest.mark.parametrize("name", ["raw.jsonl", "raw.jsonl.gz", "raw.jsonl.xz", "raw.jsonl.bz2", "raw.parquet"])
def test_documents_of_every_kind_of_input_are_made_anew(tmp_path: Path, name: str) -> None:
    prefix = make_pair(tmp_path, name, append_eod=True)
    assert_remade(prefix, Retokenizer(prefix, TOKENIZER))


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"append_eod": True, "sentences": SentenceSpec()},
        {"sentences": SentenceSpec(language="chinese", keep_newlines=True)},
        {"append_eod": True, "tokenizer": TokenizerSpec(path=TOKENIZER, add_special_tokens=True)},
        {"tokenizer": TokenizerSpec(path=TOKENIZER, special_tokens_in_text="split")},
        {"append_eod": True, "tokenizer": TokenizerSpec(path=TOKENIZER, eod_id=5)},
    ],
)
def test_documents_are_made_anew_as_they_were_made(tmp_path: Path, options: dict[str, Any]) -> None:
    prefix = make_pair(tmp_path, **options)
    assert_remade(prefix, Retokenizer(prefix, TOKENIZER))


def test_paths_that_are_not_absolute_begin_where_it_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    prefix = make_pair(Path())
    monkeypatch.chdir("/")
    assert_remade(str(tmp_path / prefix), Retokenizer(tmp_path / prefix, TOKENIZER, tmp_path))


@pytest.mark.parametrize("place", [0, 1, 200])
def test_what_differs_from_its_text_is_found(tmp_path: Path, place: int) -> None:
    prefix = make_pair(tmp_path, append_eod=True, sentences=SentenceSpec())
    index = read_index(prefix)
    tokens = np.memmap(f"{prefix}.bin", np.uint16, "r+")
    token = int(index.sequence_pointers[place]) // 2
    tokens[token] = tokens[token] % 3_000 + 1
    verdict = compare_with_sources(verify_pair(prefix, full=True), Retokenizer(prefix, TOKENIZER))
    (document,) = numbers_of(verdict.damaged).tolist()
    assert index.document_indices[document] <= place < index.document_indices[document + 1]
    (finding,) = (finding for finding in verdict.findings if finding.kind == "source")
    assert (finding.sequence, finding.byte) == (place, 2 * token)
    assert verdict.located


def refusal(prefix: str, begin: int = 0, end: int = 5, **options: Any) -> str:
    with pytest.raises((DataError, ConfigError)) as caught:
        list(Retokenizer(prefix, **{"tokenizer": TOKENIZER, **options}).remake(begin, end))
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_raw_text_that_is_not_what_it_was_makes_nothing(tmp_path: Path) -> None:
    prefix = make_pair(tmp_path)
    raw = tmp_path / "raw.jsonl"
    content = raw.read_bytes()
    raw.write_bytes(content + b"\n")
    assert "bytes, but the pair was made from" in refusal(prefix)
    raw.write_bytes(content.replace(b"Another", b"another"))
    assert "sha256 is not that of the file which the pair was made from" in refusal(prefix)
    raw.unlink()
    assert "no such file; say where the raw text is" in refusal(prefix)


def test_without_a_hash_the_record_itself_must_fit(tmp_path: Path) -> None:
    prefix = make_pair(tmp_path)
    metadata = read_metadata(prefix)
    assert metadata is not None
    write_metadata(prefix, replace(metadata, sources=()))
    raw = tmp_path / "raw.jsonl"
    content = raw.read_bytes()
    raw.write_bytes(content.replace(b'"id": "a"', b'"id": "b"'))
    assert "line 1: found id 'b', expected 'a'" in refusal(prefix)
    raw.write_bytes(b"x" + content)
    assert "it is no longer the record that the pair was made from" in refusal(prefix)
    raw.write_bytes(content[:60])
    assert "no longer the record" in refusal(prefix, 3, 4)


def test_a_pair_that_does_not_say_how_it_was_made_is_left_alone(tmp_path: Path) -> None:
    prefix = make_pair(tmp_path)
    metadata = read_metadata(prefix)
    assert metadata is not None
    for options, said in (
        ({**metadata.options, "reversed": True}, "has options ['reversed']"),
        ({"json_key": "text"}, "no option ['add_special_tokens', 'append_eod']"),
        ({**metadata.options, "sentences": "punkt"}, "sentences cut by punkt"),
    ):
        write_metadata(prefix, replace(metadata, options=options))
        assert said in refusal(prefix)
    other = replace(metadata.tokenizer, files={"tokenizer.json": "0" * 64})
    write_metadata(prefix, replace(metadata, tokenizer=other))
    assert "whose files have other hashes" in refusal(prefix)
    docs_path(prefix).unlink()
    assert "nobody knows what" in refusal(prefix)
    metadata_path(prefix).unlink()
    assert "nobody knows how" in refusal(prefix)


def test_standard_input_cannot_be_read_again(tmp_path: Path) -> None:
    prefix = make_pair(tmp_path)
    table = pq.read_table(docs_path(prefix))
    place = table.schema.get_field_index("file")
    pq.write_table(table.set_column(place, table.schema.field("file"), pa.repeat("-", len(table))), docs_path(prefix))
    assert "made from standard input" in refusal(prefix)
