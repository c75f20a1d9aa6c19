"""A batch before it is written: where its tokens come from, and what its columns show of the documents in it.

What can be computed for hundreds of rows at once is computed here, once; the rows, which are long, are then written a
few at a time (see ``rows``).
"""

from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from mindformers_megatron.sampling.boundaries import join_segments, segments_of
from mindformers_megatron.sampling.columns import ColumnOptions
from mindformers_megatron.sampling.losses import LossMasks
from mindformers_megatron.sampling.rows import RowColumn
from mindformers_megatron.sampling.segments import DenseMasks, Positions, SegmentEnds, Segments

I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]
Ids = npt.NDArray[np.integer[Any]]


class Tokens(Protocol):
    """The tokens of the rows of a batch."""

    def read(self, first: int, behind: int) -> Ids:
        """The rows ``first`` to ``behind``: int[behind - first, L + 1], of any type that holds them."""
        ...


class ReadTokens:
    """Tokens that are in memory already: int[B, L + 1]."""

    def __init__(self, tokens: Ids) -> None:
        self._tokens = tokens

    def read(self, first: int, behind: int) -> Ids:
        """The rows ``first`` to ``behind``: int[behind - first, L + 1]."""
        return self._tokens[first:behind]


class Layout:
    """B samples, laid out: rows that may be written in any order, by any thread, as often as one likes.

    Attributes:
        joined: Boundaries given up because a sample had more segments than ``actual_seq_len`` holds. Positions and both
            attention masks agree on the segments that are left; the loss mask always follows the documents.
    """

    def __init__(
        self, tokens: Tokens, marks: I64, eods: I64, counted: I64, options: ColumnOptions, length: int
    ) -> None:
        """Finds segments and losses.

        Args:
            tokens: Of B rows.
            marks: int64[K], the boundaries (see ``boundaries``), ascending and distinct.
            eods: The places behind EOD tokens likewise, for ``loss_mask="eod"``.
            counted: int64[B], leading inputs that count in the loss; at least 1.
            options: The columns to write.
            length: L.
        """
        rows = counted.size
        places = segments_of(marks, rows, length)
        self.joined = 0
        if "actual_seq_len" in options.names:
            places, self.joined = join_segments(places, rows, length, options.eod_pad_length)
        segments = Segments(places, rows, length)
        columns: dict[str, RowColumn | slice] = {}
        for name in options.names:
            if name == "input_ids":
                columns[name] = slice(0, length)
            elif name == "labels":
                columns[name] = slice(1, length + 1)
            elif name == "loss_mask":
                columns[name] = LossMasks(options.loss_mask, marks, eods, counted, length)
            elif name == "position_ids":
                columns[name] = Positions(segments if options.reset_position_ids else None, rows, length)
            elif name == "attention_mask":
                columns[name] = DenseMasks(segments if options.reset_attention_mask else None, rows, length)
            else:
                columns[name] = SegmentEnds(segments, options.eod_pad_length)
        self._columns = columns
        self._tokens = tokens
        self._rows = rows

    def __len__(self) -> int:
        return self._rows

    def columns(self, first: int = 0, behind: int | None = None) -> dict[str, I32]:
        """Reads the rows ``first`` to ``behind`` (None: all).

        Returns:
            The columns by name: int32[behind - first, L], but ``attention_mask`` int32[behind - first, 1, L, L] and
            ``actual_seq_len`` int32[behind - first, width]. Each has memory of its own, but those whose rows are the
            same for all batches, which are read-only.
        """
        behind = self._rows if behind is None else behind
        tokens = self._tokens.read(first, behind)
        return {
            name: tokens[:, column].astype(np.int32) if isinstance(column, slice) else column.read(first, behind)
            for name, column in self._columns.items()
        }
