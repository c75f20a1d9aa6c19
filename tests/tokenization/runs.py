"""Whole runs for tests, in this process."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mindformers_megatron.tokenization.preprocess import PreprocessReport, PreprocessSpec, preprocess
from mindformers_megatron.tokenization.tokenizer import TokenizerSpec

GOLDEN = Path(__file__).parent.parent / "golden" / "preprocess"
TOKENIZER = TokenizerSpec(path=GOLDEN / "tokenizer")


def run(inputs: Sequence[str | Path] | Path, prefix: Path, **options: Any) -> PreprocessReport:
    inputs = [inputs] if isinstance(inputs, Path) else inputs
    options = {"tokenizer": TOKENIZER, "workers": 1} | options
    return preprocess(PreprocessSpec(inputs=inputs, output_prefix=str(prefix), **options))


def assert_golden(prefix: Path, case: str = "plain", times: int = 1) -> None:
    """The ``.bin`` is Megatron's, so many times over; and so is the ``.idx`` of one."""
    expected = (GOLDEN / f"{case}_text_document.bin").read_bytes() * times
    assert Path(f"{prefix}_text_document.bin").read_bytes() == expected
    if times == 1:
        assert Path(f"{prefix}_text_document.idx").read_bytes() == (GOLDEN / f"{case}_text_document.idx").read_bytes()
