"""Reading a pair document by document, many at a time."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mindformers_megatron.format.index import Index
from mindformers_megatron.format.paths import bin_path
from mindformers_megatron.format.positioned import PositionedFile
from mindformers_megatron.format.slices import IndexSlices

_TOKENS = 1 << 22
_DOCUMENTS = 1 << 17


@dataclass(frozen=True, slots=True)
class DocumentBatch:
    """Neighbouring documents of a pair.

    Attributes:
        first: number of the first.
        tokens: of all of them, in the type of the file.
        lengths: int32[S], tokens of each sequence.
        sequences: int64[D], how many sequences each document has.
        modes: int8[S] of a multimodal pair, else None.
    """

    first: int
    tokens: NDArray[Any]
    lengths: NDArray[np.int32]
    sequences: NDArray[np.int64]
    modes: NDArray[np.int8] | None

    def __len__(self) -> int:
        """D."""
        return self.sequences.size

    def edges(self) -> NDArray[np.int64]:
        """int64[D + 1]: where each document begins in ``tokens``, and where the last one ends."""
        starts = np.concatenate(([0], np.cumsum(self.lengths, dtype=np.int64)))
        edges: NDArray[np.int64] = starts[np.concatenate(([0], np.cumsum(self.sequences)))]
        return edges


def read_documents(
    index: Index, begin: int = 0, end: int | None = None, *, batch_tokens: int = _TOKENS
) -> Iterator[DocumentBatch]:
    """Reads documents in order.

    Memory is that of ``batch_tokens`` tokens or of the longest document.

    Args:
        index: of the pair; what it says of these documents must be sound.
        begin: the first document.
        end: the first that is left out; None: all from ``begin`` on.
        batch_tokens: tokens of a batch, unless one document has more.

    Raises:
        DataError: the pair became shorter since it was opened.
    """
    slices, file = IndexSlices(index), PositionedFile(bin_path(index.prefix))
    stop = index.num_documents if end is None else end
    for low in range(begin, stop, _DOCUMENTS):
        bounds = slices.documents(low, min(low + _DOCUMENTS, stop) + 1)
        first = int(bounds[0])
        lengths = slices.lengths(first, int(bounds[-1]))
        starts = np.concatenate(([0], np.cumsum(lengths, dtype=np.int64)))[bounds - first]
        place = 0
        while place < bounds.size - 1:
            # As many as fit, and one at least.
            fitting = int(np.searchsorted(starts, starts[place] + batch_tokens, "right")) - 1
            after = min(max(fitting, place + 1), bounds.size - 1)
            sequences = slice(int(bounds[place]) - first, int(bounds[after]) - first)
            yield DocumentBatch(
                first=low + place,
                tokens=_tokens(index, file, int(bounds[place]), int(starts[after] - starts[place])),
                lengths=lengths[sequences],
                sequences=np.diff(bounds[place : after + 1]),
                modes=None if index.sequence_modes is None else slices.modes(bounds[place], bounds[after]),
            )
            place = after


def _tokens(index: Index, file: PositionedFile, sequence: int, count: int) -> NDArray[Any]:
    if not count:
        return np.empty(0, index.dtype)
    position = int(index.sequence_pointers[sequence])
    return file.read(position, count * index.dtype.itemsize).view(index.dtype)
