"""How many tokens texts are."""

import functools
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from mindformers_megatron.tokenization.tokenizer import Tokenizer, open_tokenizer
from mindformers_megatron.tokenization.tokenizer_files import TokenizerSpec, locate


def count_tokens(tokenizer: str, texts: Sequence[str]) -> NDArray[np.int64]:
    """Tokens of each text, int64[D], without any that a tokenizer adds around a text.

    Raises:
        ConfigError, DataError: the tokenizer is missing or damaged.
    """
    _, lengths = _opened(tokenizer).engine.encode(list(texts))
    return np.asarray(lengths, np.int64)


def tokenizer_files(tokenizer: str) -> tuple[Path, ...]:
    """The files that say how a tokenizer cuts."""
    _, files = locate(TokenizerSpec(path=Path(tokenizer)))
    return files


@functools.lru_cache(maxsize=4)
def _opened(tokenizer: str) -> Tokenizer:
    return open_tokenizer(TokenizerSpec(path=Path(tokenizer)))
