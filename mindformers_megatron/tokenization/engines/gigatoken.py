"""The fastest engine: gigatoken, for byte-level BPE and for SentencePiece BPE with byte fallback."""

import contextlib
import importlib.metadata
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from mindformers_megatron.tokenization.engines import Encoded, IdArray, surround

_NO_IDS = np.empty(0, np.int32)


class GigatokenEngine:
    """The ``gigatoken`` library.

    Args:
        tokenizer: a ``gigatoken.Tokenizer``.
        before: ids put before each text.
        after: ids put behind each text.
        by_threads: several threads of a process encode at once. Where one alone does, which others may be forked
            from, it is better off without the library's own threads, and without what it imports to give arrays of
            arrays, for which it takes a quarter of a second.
    """

    name = "gigatoken"

    def __init__(
        self, tokenizer: Any, *, before: IdArray = _NO_IDS, after: IdArray = _NO_IDS, by_threads: bool = True
    ) -> None:
        self.version: str = importlib.metadata.version("gigatoken")
        self._tokenizer = tokenizer
        self._before, self._after = before, after
        self._by_threads = by_threads

    def encode(self, texts: Sequence[str]) -> Encoded:
        """See ``Engine``."""
        if not texts:
            return _NO_IDS, np.empty(0, np.int64)
        if not self._by_threads:
            encode = self._tokenizer.encode
            arrays = [encode(text) for text in texts]
            lengths = np.fromiter(map(len, arrays), np.int64, len(arrays))
            return surround(np.concatenate(arrays).view(np.int32), lengths, self._before, self._after)
        # On its own pool: on the threads that call, they would take turns.
        layout = self._tokenizer.encode_batch(list(texts)).layout
        offsets = np.asarray(layout.offsets.data)
        ids = np.asarray(layout.content.data)[offsets[0] : offsets[-1]].view(np.int32)
        return surround(ids, np.diff(offsets), self._before, self._after)


def load_json(
    data: bytes, *, split_special_tokens: bool, before: IdArray, after: IdArray, by_threads: bool = True
) -> GigatokenEngine:
    """Loads the content of a ``tokenizer.json``.

    Args:
        data: the JSON text.
        split_special_tokens: special tokens in a text are text like any other.
        before: ids put before each text.
        after: ids put behind each text.
        by_threads: see ``GigatokenEngine``.

    Raises:
        Exception: it is none that gigatoken can do; the library raises nothing more precise.
    """
    if split_special_tokens:
        state = orjson.loads(data)
        state["added_tokens"] = [token for token in state.get("added_tokens", []) if not token.get("special")]
        data = orjson.dumps(state)
    return GigatokenEngine(_loaded(data), before=before, after=after, by_threads=by_threads)


def load_ahead(path: Path, *, by_threads: bool) -> None:
    """Loads a ``tokenizer.json`` that ``load_json`` may be asked for next; what is wrong with it is said there."""
    # pyo3's panics are no Exception.
    with contextlib.suppress(BaseException):
        # The first text makes the library import what its results are made of.
        GigatokenEngine(_loaded(path.read_bytes()), by_threads=by_threads).encode(["a"])


@lru_cache(maxsize=1)
def _loaded(data: bytes) -> Any:
    import gigatoken

    return gigatoken.Tokenizer.from_json(data)


def load_sentencepiece(path: Path, *, by_threads: bool = True) -> GigatokenEngine:
    """Loads a SentencePiece model. Raises as ``load_json`` does."""
    import gigatoken

    return GigatokenEngine(gigatoken.Tokenizer.from_sentencepiece(path), by_threads=by_threads)
