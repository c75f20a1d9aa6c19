"""The loss mask: which inputs of a batch count, from its boundaries."""

from bisect import bisect_left

import numpy as np
import numpy.typing as npt

from mindformers_megatron.sampling.boundaries import segments_of
from mindformers_megatron.sampling.columns import LossMask
from mindformers_megatron.sampling.rows import RowColumn, shared

I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]


class LossMasks(RowColumn):
    """1 where the prediction of the next token counts, else 0.

    A row that the rule would leave without any loss keeps all its counted inputs: a sample of zeros gives 0 / 0 in the
    mean of the loss, and a training that ends in NaN.
    """

    def __init__(self, kind: LossMask, marks: I64, eods: I64, counted: I64, length: int) -> None:
        """Finds the inputs that count.

        Args:
            kind: See ``ColumnOptions.loss_mask``.
            marks: int64[K], the boundaries (see ``boundaries``), ascending and distinct.
            eods: The places behind EOD tokens likewise, for ``kind="eod"``.
            counted: int64[B], how many leading inputs can count at all; at least 1.
            length: L.
        """
        self.rows, self.shape = counted.size, (length,)
        first, behind = np.zeros_like(counted), counted
        # The input before a boundary predicts another document's token; the one before the end of an EOD token is it.
        row, column = np.divmod({"boundary": marks, "eod": eods}.get(kind, marks[:0]), length + 1)
        if kind == "first_document":
            first, behind = _first_documents(marks, counted, length)
        inside = column <= counted[row]
        row, column = row[inside], column[inside]
        bare = np.bincount(row, minlength=self.rows) == counted
        if bare.any():
            row, column = row[~bare[row]], column[~bare[row]]
        self._without = row * length + column - 1
        self._bounds = np.searchsorted(row, np.arange(self.rows + 1))
        self._first, self._behind = first, behind
        self._partial = np.flatnonzero((first > 0) | (behind < length)).tolist()
        if not row.size and not self._partial:
            self.common = shared(np.ones(length, dtype=np.int32))

    def write(self, first: int, behind: int, out: I32) -> None:
        """Writes the masks of some rows; see ``RowColumn``."""
        (length,) = self.shape
        out[:] = 1
        begin, end = self._bounds[first], self._bounds[behind]
        out.reshape(-1)[self._without[begin:end] - first * length] = 0
        for row in self._partial[bisect_left(self._partial, first) : bisect_left(self._partial, behind)]:
            out[row - first, : self._first[row]] = 0
            out[row - first, self._behind[row] :] = 0


def _first_documents(marks: I64, counted: I64, length: int) -> tuple[I64, I64]:
    """Where the first document that can be learnt from begins and ends to count in each row: int64[B] each."""
    rows = counted.size
    segments = segments_of(marks, rows, length)
    row, begin = np.divmod(segments, length)
    end = begin + np.diff(segments, append=rows * length)
    # The last input of a segment has its label in the next one, if there is one.
    places = row * (length + 1) + end
    crossing = marks[np.minimum(np.searchsorted(marks, places), marks.size - 1)] == places if marks.size else False
    reached = np.minimum(end, counted[row])
    own = np.maximum(reached - begin, 0) - (crossing & (end <= counted[row]))
    # A document of a single token has no label of its own.
    learnable = np.flatnonzero(own > 0)
    opening = learnable[np.unique(row[learnable], return_index=True)[1]]
    first, behind = np.zeros(rows, dtype=np.int64), counted.copy()
    first[row[opening]], behind[row[opening]] = begin[opening], begin[opening] + own[opening]
    return first, behind
