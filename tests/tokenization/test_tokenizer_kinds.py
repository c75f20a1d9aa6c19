"""Tokenizers of other kinds than Hugging Face's, and what special tokens in texts become."""

import base64
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from runs import GOLDEN, run
from tokenizers import Tokenizer

from mindformers_megatron.errors import ConfigError, DataError
from mindformers_megatron.format.reader import IndexedDataset
from mindformers_megatron.tokenization.tokenizer import TokenizerSpec, open_tokenizer

tiktoken = pytest.importorskip("tiktoken")
pytest.importorskip("gigatoken")

WriteLines = Callable[..., Path]
MERGES = [b"ab", b"abc", b" a"]
RANKS = [*(bytes([byte]) for byte in range(256)), *MERGES]


@pytest.fixture
def ranks(tmp_path: Path) -> Path:
    path = tmp_path / "cl100k_base.tiktoken"
    path.write_bytes(b"".join(base64.b64encode(token) + b" %d\n" % rank for rank, token in enumerate(RANKS)))
    return path


def test_a_tiktoken_file_is_known_by_its_name(ranks: Path) -> None:
    tokenizer = open_tokenizer(TokenizerSpec(path=ranks))
    assert (tokenizer.kind, tokenizer.library, tokenizer.eod_id) == ("TikTokenizer", "tiktoken", 100257)
    assert (tokenizer.eod_token, tokenizer.largest_id) == ("<|endoftext|>", 100276)
    ids, lengths = tokenizer.engine.encode(["abc ab", "", "<|endoftext|>"])
    assert (ids.tolist(), lengths.tolist()) == ([257, 32, 256, 100257], [3, 0, 1])
    split = open_tokenizer(TokenizerSpec(path=ranks, special_tokens_in_text="split"))
    assert 100257 not in split.engine.encode(["<|endoftext|>"])[0]


def test_a_tiktoken_file_of_another_name_needs_its_pattern(ranks: Path, tmp_path: Path) -> None:
    # Llama 3's own file is called like a SentencePiece model.
    path = ranks.rename(tmp_path / "tokenizer.model")
    with pytest.raises(ConfigError, match=r"give --tiktoken-pattern, one of gpt2, .*llama3"):
        open_tokenizer(TokenizerSpec(path=path))
    tokenizer = open_tokenizer(TokenizerSpec(path=path, tiktoken_pattern="llama3"))
    assert (tokenizer.vocab_size, tokenizer.eod_token, tokenizer.eod_id) == (259 + 256, "<|end_of_text|>", 260)
    assert tokenizer.special_tokens[259 + 9] == "<|eot_id|>"


def test_megatrons_tiktoken_vocabulary_in_json_begins_behind_its_special_tokens(tmp_path: Path) -> None:
    path = tmp_path / "vocab.json"
    entries = [
        {"rank": rank, "token_bytes": base64.b64encode(token).decode(), "token_str": None}
        for rank, token in enumerate(RANKS)
    ]
    path.write_text(json.dumps(entries))
    spec = TokenizerSpec(path=path, kind="TikTokenizer", tiktoken_num_special_tokens=10)
    tokenizer = open_tokenizer(spec)
    assert (tokenizer.vocab_size, tokenizer.eod_token, tokenizer.eod_id) == (269, "</s>", 2)
    assert tokenizer.special_tokens[7] == "<SPECIAL_7>"
    assert tokenizer.engine.encode(["abc</s>"])[0].tolist() == [267, 2]
    path.write_text('[{"rank": 0}]')
    with pytest.raises(DataError, match="is no tiktoken vocabulary"):
        open_tokenizer(spec)


def test_berts_vocabulary_needs_its_case(tmp_path: Path) -> None:
    path = tmp_path / "vocab.txt"
    path.write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "un", "##do", "Un"]))
    lower = open_tokenizer(TokenizerSpec(vocab_file=path, kind="BertWordPieceLowerCase"))
    upper = open_tokenizer(TokenizerSpec(vocab_file=path, kind="BertWordPieceCase"))
    assert lower.engine.encode(["Undo it"])[0].tolist() == [5, 6, 1]
    assert upper.engine.encode(["Undo it"])[0].tolist() == [7, 6, 1]
    assert lower.eod_id == 3
    with pytest.raises(ConfigError, match="BertWordPieceLowerCase or BertWordPieceCase"):
        open_tokenizer(TokenizerSpec(vocab_file=path))


def test_a_folder_with_the_files_of_gpt2_is_opened(tmp_path: Path) -> None:
    Tokenizer.from_file(str(GOLDEN / "tokenizer" / "tokenizer.json")).model.save(str(tmp_path))
    assert open_tokenizer(TokenizerSpec(path=tmp_path)).kind == "GPT2BPETokenizer"


def test_the_tokenizer_without_a_vocabulary_counts_characters(tmp_path: Path, write_lines: WriteLines) -> None:
    tokenizer = TokenizerSpec(kind="NullTokenizer", vocab_size=100)
    report = run(write_lines({"text": "aé"}), tmp_path / "out", tokenizer=tokenizer, append_eod=True)
    assert IndexedDataset(tmp_path / "out_text_document")[0].tolist() == [97, 233 - 200, 100]
    assert (report.vocab_size, report.engine) == (101, "null")
    with pytest.raises(ConfigError, match="give its number of ids as --vocab-size"):
        open_tokenizer(TokenizerSpec(kind="NullTokenizer"))


@pytest.mark.parametrize("engine", ["hf", "gigatoken"])
def test_special_tokens_in_texts_are_counted_split_or_refused(
    engine: str, tmp_path: Path, write_lines: WriteLines
) -> None:
    path = write_lines({"text": "a"}, {"text": "b<|endoftext|>c<|endoftext|>"}, {"text": "d"}, b"{\n")
    options = {"engine": engine, "append_eod": True, "rejects_allowed": None}
    folder = GOLDEN / "tokenizer"
    report = run(path, tmp_path / "out", tokenizer=TokenizerSpec(path=folder), **options)
    assert report.counts.special_tokens == 2
    assert IndexedDataset(tmp_path / "out_text_document")[1].tolist().count(0) == 3

    split = TokenizerSpec(path=folder, special_tokens_in_text="split")
    report = run(path, tmp_path / "out", tokenizer=split, **options)
    assert report.counts.special_tokens == 0
    assert IndexedDataset(tmp_path / "out_text_document")[1].tolist().count(0) == 1

    refuse = TokenizerSpec(path=folder, special_tokens_in_text="error")
    report = run(path, tmp_path / "out", tokenizer=refuse, **options)
    assert (report.counts.documents, report.counts.rejects) == (2, 2)
    listed = [json.loads(line) for line in (tmp_path / "out.rejected.jsonl").read_bytes().splitlines()]
    assert [(entry["line"], entry["reason"][:49]) for entry in listed] == [
        (2, "its text has the special token '<|endoftext|>' in"),
        (4, listed[1]["reason"][:49]),
    ]
    with pytest.raises(DataError, match=r"line 2 \(byte 14\): its text has the special token"):
        run(path, tmp_path / "out", tokenizer=refuse, engine=engine)
