import json
import shutil
from pathlib import Path

import pytest
from tokenizers import Tokenizer

from mindformers_megatron.errors import ConfigError, DataError
from mindformers_megatron.tokenization.tokenizer import Tokenizer as OpenTokenizer
from mindformers_megatron.tokenization.tokenizer import TokenizerSpec, open_tokenizer

GOLDEN = Path(__file__).parent.parent / "golden" / "preprocess" / "tokenizer"


def _bare(tmp_path: Path, *special: str, config: dict[str, object] | None = None) -> Path:
    """The golden tokenizer without its end-of-document token, with other special tokens and configuration."""
    state = json.loads((GOLDEN / "tokenizer.json").read_text())
    state["added_tokens"] = []
    tokenizer = Tokenizer.from_str(json.dumps(state))
    tokenizer.add_special_tokens(list(special))
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    if config is not None:
        (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    return tmp_path


def _same(one: OpenTokenizer, two: OpenTokenizer, texts: list[str]) -> bool:
    return [a.tolist() for a in one.engine.encode(texts)] == [a.tolist() for a in two.engine.encode(texts)]


def test_a_folder_and_its_file_are_the_same_tokenizer() -> None:
    folder, file = (open_tokenizer(TokenizerSpec(path=path)) for path in (GOLDEN, GOLDEN / "tokenizer.json"))
    assert (folder.kind, folder.vocab_size, folder.largest_id) == ("HuggingFaceTokenizer", 4000, 3999)
    assert (folder.eod_id, folder.eod_token) == (0, "<|endoftext|>")
    assert (folder.files, folder.eod_id) == (file.files, file.eod_id)


def test_vocabulary_and_merges_are_gpt2(tmp_path: Path, golden_texts: list[str]) -> None:
    Tokenizer.from_file(str(GOLDEN / "tokenizer.json")).model.save(str(tmp_path))
    spec = TokenizerSpec(vocab_file=tmp_path / "vocab.json", merge_file=tmp_path / "merges.txt")
    tokenizer = open_tokenizer(spec)
    assert (tokenizer.kind, tokenizer.vocab_size, tokenizer.eod_id) == ("GPT2BPETokenizer", 4000, 0)
    assert set(tokenizer.files) == {"vocab.json", "merges.txt"}
    assert _same(tokenizer, open_tokenizer(TokenizerSpec(path=GOLDEN)), golden_texts)


def test_sentencepiece_models_are_opened_as_file_or_folder(sentencepiece_model: Path, golden_texts: list[str]) -> None:
    import sentencepiece

    tokenizer = open_tokenizer(TokenizerSpec(path=sentencepiece_model))
    assert (tokenizer.kind, tokenizer.vocab_size, tokenizer.largest_id) == ("SentencePieceTokenizer", 600, 599)
    assert (tokenizer.eod_id, tokenizer.eod_token) == (2, "</s>")
    assert _same(tokenizer, open_tokenizer(TokenizerSpec(path=sentencepiece_model.parent)), golden_texts)
    processor = sentencepiece.SentencePieceProcessor(model_file=str(sentencepiece_model))
    ids, lengths = tokenizer.engine.encode(golden_texts)
    assert ids.tolist() == [id_ for text in golden_texts for id_ in processor.encode(text)]
    assert lengths.tolist() == [len(processor.encode(text)) for text in golden_texts]


@pytest.mark.parametrize(
    ("special", "config", "generation", "expected"),
    [
        (["</s>"], None, None, "</s>"),
        (["<|endoftext|>", "<|im_end|>"], {"eos_token": "<|im_end|>"}, None, "<|im_end|>"),
        (["[SEP]"], {"sep_token": "[SEP]"}, None, "[SEP]"),
        (["<a>", "<b>"], {}, {"eos_token_id": [4001, 4000]}, "<b>"),
        (["<a>", "<b>"], {}, {"eos_token_id": 4000}, "<a>"),
        (["<a>"], None, None, None),
        (["</s>", "<|end_of_text|>"], None, None, None),
    ],
)
def test_the_end_of_document_token_is_the_one_the_files_name(
    special: list[str],
    config: dict[str, object] | None,
    generation: dict[str, object] | None,
    expected: str | None,
    tmp_path: Path,
) -> None:
    folder = _bare(tmp_path, *special, config=config)
    if generation is not None:
        (folder / "generation_config.json").write_text(json.dumps(generation))
    # "<|endoftext|>" is in the vocabulary of the model, but not a special token there.
    tokenizer = open_tokenizer(TokenizerSpec(path=folder))
    assert tokenizer.eod_token == expected
    if expected is None:
        with pytest.raises(ConfigError, match=r"pass --eod-token TOKEN or --eod-id ID"):
            tokenizer.require_eod()
    else:
        assert tokenizer.require_eod() == tokenizer.eod_id


@pytest.mark.parametrize(
    ("token", "id_", "expected"),
    [("the", None, "the"), (None, 300, None), ("<|endoftext|>", 0, "<|endoftext|>")],
)
def test_an_end_of_document_token_can_be_asked_for(token: str | None, id_: int | None, expected: str | None) -> None:
    tokenizer = open_tokenizer(TokenizerSpec(path=GOLDEN, eod_token=token, eod_id=id_))
    assert expected is None or tokenizer.eod_token == expected
    assert id_ is None or tokenizer.eod_id == id_


@pytest.mark.parametrize(
    ("token", "id_", "reason"),
    [
        ("<|nowhere|>", None, "its vocabulary has no token '<|nowhere|>'"),
        (None, 4000, "its vocabulary has no id 4000"),
        (None, -1, "its vocabulary has no id -1"),
        ("<|endoftext|>", 1, "token '<|endoftext|>' has id 0, not 1"),
    ],
)
def test_an_end_of_document_token_must_be_in_the_vocabulary(
    token: str | None, id_: int | None, reason: str, sentencepiece_model: Path
) -> None:
    with pytest.raises(ConfigError) as caught:
        open_tokenizer(TokenizerSpec(path=GOLDEN, eod_token=token, eod_id=id_))
    assert reason in str(caught.value)
    if token is None:
        with pytest.raises(ConfigError, match="its vocabulary has no id"):
            open_tokenizer(TokenizerSpec(path=sentencepiece_model, eod_id=id_))


def test_a_generation_configuration_that_names_a_missing_id_is_an_error(tmp_path: Path) -> None:
    folder = _bare(tmp_path)
    (folder / "generation_config.json").write_text('{"eos_token_id": 100000}')
    with pytest.raises(DataError, match="name eos_token_id 100000, which its vocabulary does not have"):
        open_tokenizer(TokenizerSpec(path=folder))


def test_what_is_no_tokenizer_is_named(tmp_path: Path) -> None:
    (tmp_path / "model.bin").write_bytes(b"")
    (tmp_path / "damaged.model").write_bytes(b"no model")
    (tmp_path / "two").mkdir()
    for spec, kind, reason in (
        (TokenizerSpec(), ConfigError, "no tokenizer given"),
        (TokenizerSpec(vocab_file=tmp_path / "vocab.json"), ConfigError, "both --vocab-file and --merge-file"),
        (TokenizerSpec(path=tmp_path / "Qwen/Qwen3-8B"), DataError, "no such file or folder; .*download it first"),
        (TokenizerSpec(path=tmp_path / "two"), DataError, "has neither a tokenizer.json nor one SentencePiece .model"),
        (TokenizerSpec(path=tmp_path / "model.bin"), ConfigError, "neither a folder, nor a tokenizer.json"),
        (TokenizerSpec(path=tmp_path / "damaged.model"), DataError, "is no SentencePiece model"),
        (TokenizerSpec(path=GOLDEN, kind="SentencePieceTokenizer"), ConfigError, "a SentencePieceTokenizer was asked"),
        (
            TokenizerSpec(vocab_file=tmp_path / "vocab.json", merge_file=tmp_path / "merges.txt"),
            DataError,
            "vocab.json: no such file",
        ),
        (
            TokenizerSpec(vocab_file=tmp_path / "model.bin", merge_file=tmp_path / "damaged.model"),
            DataError,
            "are no BPE vocabulary and merges",
        ),
    ):
        with pytest.raises(kind, match=reason) as caught:
            open_tokenizer(spec)
        assert "\n" not in str(caught.value)


def test_the_largest_id_is_found_behind_a_gap(tmp_path: Path) -> None:
    state = json.loads((GOLDEN / "tokenizer.json").read_text())
    state["model"]["vocab"]["<|far|>"] = 70_000
    (tmp_path / "tokenizer.json").write_text(json.dumps(state))
    shutil.copy(GOLDEN / "tokenizer_config.json", tmp_path)
    tokenizer = open_tokenizer(TokenizerSpec(path=tmp_path))
    assert (tokenizer.vocab_size, tokenizer.largest_id) == (4001, 70_000)
