"""Tokenizers and inputs for tests: real files."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

GOLDEN = Path(__file__).parent.parent / "golden" / "preprocess"

WriteLines = Callable[..., Path]


@pytest.fixture(scope="session")
def golden_texts() -> list[str]:
    """The texts of the golden input, in order."""
    return [json.loads(line)["text"] for line in (GOLDEN / "input.jsonl").read_bytes().splitlines()]


@pytest.fixture(scope="session")
def sentencepiece_model(tmp_path_factory: pytest.TempPathFactory, golden_texts: list[str]) -> Path:
    """A small SentencePiece model with <s>, </s> and <unk>."""
    sentencepiece = pytest.importorskip("sentencepiece")
    folder = tmp_path_factory.mktemp("sentencepiece")
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=(line for text in golden_texts for line in text.splitlines() if line.strip()),
        model_prefix=str(folder / "tokenizer"),
        vocab_size=600,
        model_type="bpe",
        byte_fallback=True,
        minloglevel=2,
    )
    return folder / "tokenizer.model"


@pytest.fixture
def write_lines(tmp_path: Path) -> WriteLines:
    """Writes lines, each a record (a dict), or bytes as they are; returns the path."""

    def write(*lines: dict[str, Any] | bytes, name: str = "input.jsonl") -> Path:
        path = tmp_path / name
        path.write_bytes(b"".join(x if isinstance(x, bytes) else json.dumps(x).encode() + b"\n" for x in lines))
        return path

    return write
