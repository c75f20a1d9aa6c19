"""What a sample is made from: pieces of a corpus, laid one behind the other into a row of ``seq_length + 1`` tokens.

Every order of sampling comes down to this one value, so that reading, boundaries and masks exist once.
"""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from mindformers_megatron.format.reader import IndexedDataset

I64 = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pieces:
    """The pieces of B samples, in row order and, within a row, in column order.

    The pieces of a row follow each other without a gap; what they do not fill is padding, at its end. A piece that does
    not open its row begins a new document or jumps to another place of the corpus: either way its first token is a
    boundary. Document starts *inside* a piece are found from the index.

    Attributes:
        row: int64[P], the sample that each piece belongs to, ascending.
        column: int64[P], the column of its first token.
        start: int64[P], the position of its first token in the ``.bin``, in tokens.
        length: int64[P], in tokens, at least 1.
        counted: int64[B], how many leading inputs of each row count in the loss; those behind are padding, or tokens
            that this epoch has already given.
    """

    row: I64
    column: I64
    start: I64
    length: I64
    counted: I64


@dataclass(frozen=True, slots=True)
class Part:
    """What one corpus gives to a batch.

    Attributes:
        dataset: The corpus.
        pieces: The pieces of ``len(rows)`` samples.
        rows: int64[B'], the row of the batch for each sample of ``pieces``.
    """

    dataset: IndexedDataset
    pieces: Pieces
    rows: I64


def ranges(starts: I64, lengths: I64) -> I64:
    """Concatenates ``arange(start, start + length)`` for each pair, without a loop."""
    total = int(lengths.sum())
    if not total:
        return np.empty(0, dtype=np.int64)
    shift = starts - np.concatenate(([0], np.cumsum(lengths)[:-1]))
    return np.arange(total, dtype=np.int64) + np.repeat(shift, lengths)


class RowTokens:
    """The tokens of B rows, read when they are asked for.

    A batch is laid out once, for hundreds of rows; its tokens are read a few rows at a time, so that they are still in
    the processor's cache when a framework copies them.

    Attributes:
        filled: int64[B], tokens of each row; padding follows.
    """

    def __init__(self, parts: Sequence[Part], rows: int, width: int, pad_id: int) -> None:
        """Sorts the pieces by row.

        Args:
            parts: What the rows are made from.
            rows: B.
            width: Tokens of a row.
            pad_id: What stands behind the pieces of a row that they do not fill.
        """
        row = _joined([part.rows[part.pieces.row] for part in parts])
        order = np.argsort(row, kind="stable")
        length = _joined([part.pieces.length for part in parts])[order]
        self.filled: I64 = np.bincount(row[order], weights=length, minlength=rows).astype(np.int64)
        self._width = width
        self._pad_id = pad_id
        self._datasets = [part.dataset for part in parts]
        types = {dataset.dtype for dataset in self._datasets}
        self._dtype = types.pop() if len(types) == 1 else np.dtype(np.int32)
        # Plain integers: each is used once, and NumPy's own are slow one by one.
        self._row = row[order].tolist()
        self._source = np.repeat(np.arange(len(parts)), [part.pieces.row.size for part in parts])[order].tolist()
        self._column = _joined([part.pieces.column for part in parts])[order].tolist()
        self._start = _joined([part.pieces.start for part in parts])[order].tolist()
        self._length = length.tolist()
        self._bounds = np.searchsorted(row[order], np.arange(rows + 1)).tolist()
        self._partial = np.flatnonzero(self.filled < width).tolist()

    def read(self, first: int, behind: int) -> npt.NDArray[np.integer[Any]]:
        """Reads the rows ``first`` to ``behind``: int[behind - first, width], in the type of the files where it holds.

        Files of several types, and rows with padding, are read as int32.
        """
        # As they are in the files, to be turned into int32 together: every such operation gives the interpreter's lock
        # away, which costs more than the operation where another thread wants it.
        raw = np.empty((behind - first, self._width), dtype=self._dtype)
        out, size = raw.reshape(-1).view(np.uint8).data, raw.itemsize
        for piece in range(self._bounds[first], self._bounds[behind]):
            length = self._length[piece]
            begin = ((self._row[piece] - first) * self._width + self._column[piece]) * size
            dataset = self._datasets[self._source[piece]]
            if dataset.dtype == self._dtype:
                dataset.read_into(self._start[piece], length, out[begin : begin + length * size])
            else:
                into = np.frombuffer(out[begin : begin + length * size], dtype=self._dtype)
                into[:] = dataset.tokens(self._start[piece], length)
        partial = self._partial[bisect_left(self._partial, first) : bisect_left(self._partial, behind)]
        tokens = raw.astype(np.int32, copy=False) if partial else raw
        for row in partial:
            tokens[row - first, self.filled[row] :] = self._pad_id
        return tokens


def _joined(arrays: list[I64]) -> I64:
    return np.concatenate(arrays) if arrays else np.empty(0, dtype=np.int64)
