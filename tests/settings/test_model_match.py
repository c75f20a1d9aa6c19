"""Data that do not fit the model are one line with both values, before anything is built; each can be allowed."""

import hashlib
import json
import logging
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pairs import MakeCorpus

from mindformers_megatron.errors import ConfigError
from mindformers_megatron.format.metadata import Metadata, TokenizerInfo, write_metadata
from mindformers_megatron.sampling.plan import SamplePlan
from mindformers_megatron.settings.model_match import CHECKS, check_model
from mindformers_megatron.settings.model_settings import ModelSettings

DOCUMENTS = [[5, 9, 300, 0], [7, 8, 0], [5, 40, 41, 42, 0]]
FITTING = {"vocab_size": 512, "seq_length": 4, "eos_token_id": 0, "bos_token_id": 5, "pad_token_id": 3}


def metadata_of(**fields: Any) -> Metadata:
    tokenizer = TokenizerInfo(
        name="ours", kind="HuggingFaceTokenizer", files={"tokenizer.json": "0" * 64},
        library="tokenizers", library_version="1", engine="tokenizers", engine_version="1",
    )  # fmt: skip
    made = Metadata(
        tokenizer=tokenizer, vocab_size=512, eod_id=0, dtype="uint16", documents=3, sequences=3, tokens=12,
        bin_sha256="0" * 64, idx_sha256="0" * 64, created="2026-01-01T00:00:00+00:00", program_version="1",
    )  # fmt: skip
    return replace(made, **fields)


@pytest.fixture
def wiki(make_corpus: MakeCorpus) -> str:
    return make_corpus("wiki", DOCUMENTS)


def plan_of(prefix: str, **options: Any) -> SamplePlan:
    return SamplePlan.build(prefix, **{"seq_length": 4, **options})


def model(**settings: Any) -> dict[str, Any]:
    return {"model": {"model_config": settings}}


def test_what_fits_and_what_nothing_says_passes(wiki: str) -> None:
    check_model(plan_of(wiki), model(**FITTING))
    write_metadata(wiki, metadata_of())
    check_model(plan_of(wiki), model(**FITTING))
    check_model(plan_of(wiki), model(bos_token_id=-1, pad_token_id=-1))
    check_model(plan_of(wiki), {})


@pytest.mark.parametrize(
    "check, settings, metadata, options, message",
    [
        ("vocab_size", {"vocab_size": 500}, {}, {}, "vocabulary of 512, model.model_config.vocab_size is 500"),
        ("vocab_size", {"vocab_size": 300}, None, {}, "holds the id 300, model.model_config.vocab_size is 300"),
        ("vocab_size", {"vocab_size": 512, "eos_token_id": 600}, None, {}, "is 600, model.model_config.vocab_size is"),
        ("eod_id", {"eos_token_id": 2}, {}, {}, "document in wiki is 0, model.model_config.eos_token_id is 2"),
        ("eod_id", {"eos_token_id": [2, 4]}, {}, {}, r"is 0, model.model_config.eos_token_id is \[2, 4\]"),
        ("eod_id", {"eos_token_id": 2}, None, {"eod_id": 0}, "eod_id of the data loader is 0, .*eos_token_id is 2"),
        ("pad_id", {"pad_token_id": 1}, None, {"order": "document"}, "pad_id of the data loader is 0, .* is 1"),
        ("bos_id", {"bos_token_id": 1}, {"options": {"add_special_tokens": True}}, {}, "begins with 5, .* is 1"),
        ("seq_length", {"seq_length": 8}, None, {}, "seq_length of the data loader is 4, .*seq_length is 8"),
        ("seq_length", {}, {"seq_length": 8}, {}, "made for seq_length 8, that of the data loader is 4"),
        ("max_position_embeddings", {"max_position_embeddings": 2}, None, {}, "is 4, .*max_position_embeddings is 2"),
        ("max_position_embeddings", {"max_position_embedding": 2}, None, {}, "is 4, .*max_position_embedding is 2"),
    ],
)
def test_a_mismatch_names_both_values_and_can_be_allowed(
    wiki: str, caplog: Any, check: str, settings: Any, metadata: Any, options: Any, message: str
) -> None:
    if metadata is not None:
        write_metadata(wiki, metadata_of(**metadata))
    plan = plan_of(wiki, **options)
    with pytest.raises(ConfigError, match=message) as caught:
        check_model(plan, model(**settings))
    assert "\n" not in str(caught.value) and f"allow: [{check}]" in str(caught.value)
    check_model(plan, model(**settings), allow=[check])
    assert f"allowed ({check})" in caplog.text
    with pytest.raises(ConfigError):
        check_model(plan, model(**settings), allow=[name for name in CHECKS if name != check])


def test_a_model_that_ends_texts_in_several_ways_takes_any_of_them(wiki: str) -> None:
    write_metadata(wiki, metadata_of())
    check_model(plan_of(wiki), model(eos_token_id=[7, 0]))


def test_padding_is_compared_only_where_there_is_any(wiki: str) -> None:
    check_model(plan_of(wiki), model(pad_token_id=1))
    check_model(plan_of(wiki, order="document", pad_id=1), model(pad_token_id=1))


def test_what_the_yaml_leaves_out_is_read_from_the_folder_of_the_model(wiki: str, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"vocab_size": 100, "max_position_embeddings": 64}))
    run = {"pretrained_model_dir": str(tmp_path), **model(max_position_embeddings=8)}
    settings = ModelSettings.of(run)
    assert (settings.vocab_size.value, settings.max_position_embeddings.value) == (100, 8)  # type: ignore[union-attr]
    with pytest.raises(ConfigError, match=r"holds the id 300, .*config\.json\.vocab_size is 100"):
        check_model(plan_of(wiki), run)


def test_a_setting_that_is_no_number_is_named() -> None:
    with pytest.raises(ConfigError, match=r"model\.model_config\.vocab_size is '512'; expected a whole number"):
        ModelSettings.of(model(vocab_size="512"))


@pytest.fixture
def tokenizer(tmp_path: Path) -> Path:
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel

    path = tmp_path / "tokenizer.json"
    Tokenizer(WordLevel({"a": 0, "b": 1}, unk_token="a")).save(str(path))
    return path


@pytest.mark.parametrize("place", ["processor", "folder"])
def test_the_tokenizer_that_the_run_names_must_be_the_datas(wiki: str, tokenizer: Path, place: str) -> None:
    named: dict[str, Any] = {"pretrained_model_dir": str(tokenizer.parent)}
    if place == "processor":
        named = {"processor": {"tokenizer": {"type": "LlamaTokenizerFast", "tokenizer_file": str(tokenizer)}}}
    write_metadata(wiki, metadata_of())
    digest = hashlib.sha256(tokenizer.read_bytes()).hexdigest()
    with pytest.raises(ConfigError, match=f"sha256 0000.*, the run names .*{digest[:12]}.*allow: .tokenizer") as caught:
        check_model(plan_of(wiki), named)
    assert "\n" not in str(caught.value)
    files = {"tokenizer.json": digest}
    write_metadata(wiki, metadata_of(tokenizer=replace(metadata_of().tokenizer, files=files)))
    check_model(plan_of(wiki), named)


def test_files_of_another_kind_cannot_be_compared_and_are_a_warning(wiki: str, tokenizer: Path, caplog: Any) -> None:
    made = replace(metadata_of().tokenizer, kind="SentencePieceTokenizer")
    write_metadata(wiki, metadata_of(tokenizer=made))
    with caplog.at_level(logging.WARNING):
        check_model(plan_of(wiki), {"pretrained_model_dir": str(tokenizer.parent)})
    assert "cannot tell whether they are the same" in caplog.text
