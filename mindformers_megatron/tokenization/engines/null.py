"""Megatron's tokenizer without a vocabulary, for trying out a training without one."""

from collections.abc import Sequence

import numpy as np

from mindformers_megatron._version import __version__
from mindformers_megatron.tokenization.engines import Encoded


class NullEngine:
    """A token for each character: its code point modulo the size of the vocabulary.

    Args:
        vocab_size: ids, without that of the end of a document.
    """

    name = "null"
    version = __version__

    def __init__(self, vocab_size: int) -> None:
        self._vocab_size = vocab_size

    def encode(self, texts: Sequence[str]) -> Encoded:
        """See ``Engine``."""
        codes = np.frombuffer("".join(texts).encode("utf-32-le"), "<u4")
        lengths = np.fromiter(map(len, texts), np.int64, len(texts))
        return (codes % self._vocab_size).astype(np.int32), lengths
