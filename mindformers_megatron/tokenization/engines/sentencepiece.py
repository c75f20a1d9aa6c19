"""The engine whose ids are the truth for SentencePiece models: their own library."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from mindformers_megatron.tokenization.engines import Encoded, flatten

if TYPE_CHECKING:
    from sentencepiece import SentencePieceProcessor


class SentencePieceEngine:
    """The ``sentencepiece`` library.

    Args:
        processor: a loaded model.
    """

    name = "sentencepiece"

    def __init__(self, processor: "SentencePieceProcessor") -> None:
        import sentencepiece

        self.version: str = sentencepiece.__version__
        self._processor: Any = processor

    def encode(self, texts: Sequence[str]) -> Encoded:
        """See ``Engine``."""
        return flatten(self._processor.encode(list(texts), num_threads=1))
