"""The engine whose ids are the truth for Hugging Face's tokenizers: their own library."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from mindformers_megatron.tokenization.engines import Encoded, flatten
from mindformers_megatron.tokenization.long_texts import LONG_TEXT, encode_in_windows

if TYPE_CHECKING:
    from tokenizers import Encoding, Tokenizer


class HuggingFaceEngine:
    """The ``tokenizers`` library, whose ids are the truth for every other engine.

    Args:
        tokenizer: the tokenizer, without truncation and padding.
        add_special_tokens: add what its post-processor adds around each text, as ``tokenizer(text).input_ids`` does.
    """

    name = "hf"

    def __init__(self, tokenizer: "Tokenizer", *, add_special_tokens: bool) -> None:
        import tokenizers

        self.version: str = tokenizers.__version__
        self._tokenizer = tokenizer
        self._add_special_tokens = add_special_tokens

    def encode(self, texts: Sequence[str]) -> Encoded:
        """See ``Engine``."""
        if any(len(text) > LONG_TEXT for text in texts):
            arrays = [self._encode_one(text) for text in texts]
            return np.concatenate(arrays), np.fromiter(map(len, arrays), np.int64, len(arrays))
        # The fast variant leaves out only the offsets, which nobody asks for. Not ``encode``, even for one text: all
        # other threads would have to wait for it.
        encodings = self._tokenizer.encode_batch_fast(list(texts), add_special_tokens=self._add_special_tokens)
        return flatten([encoding.ids for encoding in encodings])

    def _encode_one(self, text: str) -> NDArray[np.int32]:
        if len(text) <= LONG_TEXT:
            return np.asarray(self._encode_whole(text, self._add_special_tokens).ids, np.int32)
        ids = encode_in_windows(lambda window: self._encode_whole(window, False), text)
        if not self._add_special_tokens:
            return ids
        before, after = self.added_around()
        return np.concatenate([before, ids, after])

    def _encode_whole(self, text: str, add_special_tokens: bool) -> "Encoding":
        return self._tokenizer.encode(text, add_special_tokens=add_special_tokens)

    def added_around(self) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """The ids that are put before and behind each text."""
        if not self._add_special_tokens:
            return np.empty(0, np.int32), np.empty(0, np.int32)
        encoding = self._encode_whole("a", True)
        added = np.asarray(encoding.special_tokens_mask, bool)
        ids = np.asarray(encoding.ids, np.int32)
        own = np.flatnonzero(~added)
        return ids[: own[0]], ids[own[-1] + 1 :]
