"""What is written is what transformers and this package open, whole or not at all, and never over something else."""

import json
from pathlib import Path
from typing import Any

import pytest
from stdlib_texts import real_texts

from mindformers_megatron.errors import ConfigError
from mindformers_megatron.tokenization.tokenizer import TokenizerSpec, open_tokenizer
from mindformers_megatron.tokenization.training.byte_bpe import ByteBpeOptions, train_byte_bpe
from mindformers_megatron.tokenization.training.folder import Destination
from mindformers_megatron.tokenization.training.record import training_record
from mindformers_megatron.tokenization.training.sentencepiece_trainer import (
    SentencePieceOptions,
    special_pieces,
    train_sentencepiece,
)
from mindformers_megatron.tokenization.training.special_tokens import SpecialTokens
from mindformers_megatron.tokenization.training.trained import TrainedTokenizer

BYTE_BPE = ByteBpeOptions(
    vocab_size=800,
    special=SpecialTokens(
        {"pad": "<pad>", "bos": "<s>", "eos": "<|im_end|>", "eod": "<|endoftext|>"}, {"eod": 799}, ("<sep>",)
    ),
    pre_tokenizer="gpt2",
)


@pytest.fixture(scope="module")
def byte_bpe() -> TrainedTokenizer:
    return train_byte_bpe(real_texts(), BYTE_BPE)


@pytest.fixture(scope="module")
def unigram() -> TrainedTokenizer:
    pytest.importorskip("sentencepiece")
    special = special_pieces({"eod": "</s>"}, {"pad": 3}, ("<sep>",))
    return train_sentencepiece(real_texts(), SentencePieceOptions(vocab_size=1000, special=special))


def test_transformers_opens_the_folder(tmp_path: Path, byte_bpe: TrainedTokenizer, unigram: TrainedTokenizer) -> None:
    transformers = pytest.importorskip("transformers")
    for name, trained in (("byte_bpe", byte_bpe), ("unigram", unigram)):
        Destination(tmp_path / name).write(trained, {})
        opened = transformers.AutoTokenizer.from_pretrained(str(tmp_path / name))
        assert len(opened) == trained.vocab_size
        for role, token in trained.roles.items():
            if role != "eod":
                assert getattr(opened, f"{role}_token") == token
        for text in real_texts():
            assert opened(text + "<sep>").input_ids == trained.tokenizer.encode(text + "<sep>").ids
        assert "<sep>" in opened.decode(opened("a<sep>b").input_ids, skip_special_tokens=True)


def test_this_package_opens_it_and_finds_the_end_of_a_document(
    tmp_path: Path, byte_bpe: TrainedTokenizer, unigram: TrainedTokenizer
) -> None:
    Destination(tmp_path / "byte_bpe").write(byte_bpe, {})
    opened = open_tokenizer(TokenizerSpec(path=tmp_path / "byte_bpe"))
    assert (opened.eod_id, opened.eod_token, opened.vocab_size) == (799, "<|endoftext|>", 800)
    ids, _ = opened.engine.encode(list(real_texts()))
    assert ids.tolist() == [id_ for text in real_texts() for id_ in byte_bpe.tokenizer.encode(text).ids]
    files = TokenizerSpec(vocab_file=tmp_path / "byte_bpe" / "vocab.json", merge_file=tmp_path / "byte_bpe/merges.txt")
    assert open_tokenizer(files).engine.encode(["def f(x):"])[0].tolist() == byte_bpe.tokenizer.encode("def f(x):").ids
    Destination(tmp_path / "unigram").write(unigram, {})
    assert open_tokenizer(TokenizerSpec(path=tmp_path / "unigram")).eod_token == "</s>"
    assert open_tokenizer(TokenizerSpec(path=tmp_path / "unigram" / "tokenizer.model")).eod_token == "</s>"


def test_sentencepieces_files_may_stand_alone(tmp_path: Path, unigram: TrainedTokenizer) -> None:
    destination = Destination(None, str(tmp_path / "new" / "my_tokenizer"))
    destination.check()
    destination.write(unigram, {"vocab_size": 1000})
    written = {path.name: path.read_bytes() for path in (tmp_path / "new").iterdir()}
    assert set(written) == {"my_tokenizer.model", "my_tokenizer.vocab", "my_tokenizer.training.json"}
    assert written["my_tokenizer.model"] == unigram.files[".model"]
    with pytest.raises(ConfigError, match=r"my_tokenizer\.training\.json: is there already"):
        destination.check()


def test_the_record_says_how_to_make_it_again(tmp_path: Path, byte_bpe: TrainedTokenizer) -> None:
    record = training_record(byte_bpe, BYTE_BPE, inputs=[], reading={"text_key": "text"}, seen={"texts": 199})
    Destination(tmp_path / "folder").write(byte_bpe, record)
    read: dict[str, Any] = json.loads((tmp_path / "folder" / "training.json").read_text())
    assert read == record
    assert (read["model_type"], read["vocab_size"], read["seen"]) == ("byte-bpe", 800, {"texts": 199})
    assert read["special_tokens"]["eod"] == {"token": "<|endoftext|>", "id": 799}
    assert read["user_defined_symbols"] == {"<sep>": 3}
    assert read["options"]["pre_tokenizer"] == "gpt2"
    assert read["library"] == "tokenizers"


def test_what_is_there_already_is_left_alone(tmp_path: Path, byte_bpe: TrainedTokenizer) -> None:
    (tmp_path / "empty").mkdir()
    Destination(tmp_path / "empty").check()
    Destination(tmp_path / "empty").write(byte_bpe, {})
    with pytest.raises(ConfigError, match="empty: is there already"):
        Destination(tmp_path / "empty").check()
    before = (tmp_path / "empty" / "training.json").stat()
    with pytest.raises(ConfigError, match="it has come to be there meanwhile"):
        Destination(tmp_path / "empty").write(byte_bpe, {"other": 1})
    assert (tmp_path / "empty" / "training.json").stat() == before
    assert [path.name for path in tmp_path.iterdir()] == ["empty"]
    with pytest.raises(ConfigError, match="no place to write to"):
        Destination(None).check()
    with pytest.raises(ConfigError, match="--model-prefix is for SentencePiece"):
        Destination(None, str(tmp_path / "x")).write(byte_bpe, {})
