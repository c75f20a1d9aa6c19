"""What keeps the documents of a row apart in a model: positions, and the two kinds of attention masks.

A *segment* is a stretch of a row's inputs that begins at the row's start or at a boundary, and ends before the next.
"""

import numpy as np
import numpy.typing as npt

from mindformers_megatron.sampling.rows import RowColumn, shared

I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]


class Segments:
    """The segments of the inputs of B rows.

    Attributes:
        rows: B.
        length: L, inputs of a row.
        begin: int32[S], the column where each segment begins, row after row; 0 for the first of a row.
        size: int64[S], its inputs.
        bounds: int64[B + 1], where the segments of each row begin in ``begin``, and the end of the last row's.
    """

    def __init__(self, places: I64, rows: int, length: int) -> None:
        """Takes segments as ``boundaries.segments_of`` gives them."""
        row, column = np.divmod(places, length)
        self.rows, self.length = rows, length
        self.begin: I32 = column.astype(np.int32)
        self.size: I64 = np.diff(places, append=rows * length)
        self.bounds: I64 = np.searchsorted(row, np.arange(rows + 1))


class Positions(RowColumn):
    """Position ids, that start again at each segment; or, without segments, those of whole rows."""

    def __init__(self, segments: Segments | None, rows: int, length: int) -> None:
        self.rows, self.shape = rows, (length,)
        self._segments = segments
        self._line = shared(np.arange(length, dtype=np.int32))
        if segments is None:
            self.common = self._line

    def write(self, first: int, behind: int, out: I32) -> None:
        """Writes the positions of some rows; see ``RowColumn``."""
        assert self._segments is not None
        begin, end = self._segments.bounds[first], self._segments.bounds[behind]
        before = np.repeat(self._segments.begin[begin:end], self._segments.size[begin:end])
        np.subtract(self._line, before.reshape(out.shape), out=out)


class SegmentEnds(RowColumn):
    """Compressed masks: the cumulative ends of the segments, filled up with L."""

    def __init__(self, segments: Segments, width: int) -> None:
        self.rows, self.shape = segments.rows, (width,)
        row = np.repeat(np.arange(segments.rows), np.diff(segments.bounds))
        inner = np.flatnonzero(segments.begin)
        self._ends = np.full((segments.rows, width), segments.length, dtype=np.int32)
        # The first segment of a row starts at column 0; the k-th after it ends the one before, and is the k-th end.
        rank = inner - segments.bounds[row[inner]] - 1
        self._ends[row[inner], rank] = segments.begin[inner]

    def write(self, first: int, behind: int, out: I32) -> None:
        """Writes the ends of some rows; see ``RowColumn``."""
        out[:] = self._ends[first:behind]


class DenseMasks(RowColumn):
    """MindFormers' dense attention masks, 1 = *may not attend*: causal, and within segments if they are given."""

    def __init__(self, segments: Segments | None, rows: int, length: int) -> None:
        self.rows, self.shape = rows, (1, length, length)
        self._segments = segments
        self._causal = shared((~np.tri(length, dtype=np.bool_)).astype(np.int32)[None])
        if segments is None:
            self.common = self._causal

    def write(self, first: int, behind: int, out: I32) -> None:
        """Writes the masks of some rows, int32[behind - first, 1, L, L]; see ``RowColumn``."""
        assert self._segments is not None
        out[:] = self._causal
        bounds = self._segments.bounds
        for row in range(first, behind):
            for segment in range(bounds[row] + 1, bounds[row + 1]):
                begin = self._segments.begin[segment]
                out[row - first, 0, begin : begin + self._segments.size[segment], :begin] = 1
