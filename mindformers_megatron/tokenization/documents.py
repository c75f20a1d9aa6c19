"""From the ids of texts to documents as they stand in a pair."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

# Tokens of a document from which on it is copied whole.
_LONG = 64


@dataclass(frozen=True, slots=True)
class Documents:
    """Consecutive documents.

    Attributes:
        ids: their tokens, int[N].
        lengths: tokens of each sequence, int64[S] with sum N; none is 0.
        sequences: how many sequences each document has, int64[D] with sum S.
    """

    ids: NDArray[np.integer[Any]]
    lengths: NDArray[np.int64]
    sequences: NDArray[np.int64]

    def tokens_per_document(self) -> NDArray[np.int64]:
        """int64[D] with sum N."""
        ends = np.concatenate(([0], np.cumsum(self.lengths)))[np.cumsum(self.sequences)]
        return np.diff(ends, prepend=0)


def assemble(
    ids: NDArray[np.integer[Any]], lengths: NDArray[np.int64], texts: NDArray[np.int64], eod: int | None
) -> Documents:
    """Makes documents of encoded texts, as Megatron's tool does.

    A text without tokens leaves no sequence. A document without tokens has none, and gets no end-of-document token
    either.

    Args:
        ids: tokens of all texts, int[N].
        lengths: tokens of each text, int64[T] with sum N.
        texts: how many texts each document has, int64[D] with sum T.
        eod: the token to be appended to each document, None for none.
    """
    ends = np.cumsum(texts)
    filled = lengths > 0
    # How many texts with tokens come before each document's end, hence how many it has.
    filled_before = np.concatenate(([0], np.cumsum(filled)))
    last = filled_before[ends]
    sequences = np.diff(last, prepend=0)
    kept = lengths[filled]
    if eod is None:
        return Documents(ids, kept, sequences)
    closing = last[sequences > 0] - 1
    positions = np.cumsum(kept)[closing]
    kept[closing] += 1
    return Documents(_insert(ids, positions, eod), kept, sequences)


def _insert(ids: NDArray[np.integer[Any]], positions: NDArray[np.int64], id_: int) -> NDArray[np.integer[Any]]:
    if ids.size < _LONG * positions.size:
        return np.insert(ids, positions, id_)
    # Long pieces are faster copied one by one than moved token by token.
    inserted = np.array([id_], ids.dtype)
    pieces: list[NDArray[np.integer[Any]]] = []
    start = 0
    for stop in positions.tolist():
        pieces += (ids[start:stop], inserted)
        start = stop
    return np.concatenate([*pieces, ids[start:]])
