"""The columns of a batch, from its tokens and its boundaries.

Every column is int32, as MindFormers' own loaders give them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from mindformers_megatron.sampling.boundaries import join_segments, segments_of
from mindformers_megatron.sampling.pieces import ranges

I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]
LossMask = Literal["none", "eod", "boundary", "first_document"]

COLUMNS = ("input_ids", "labels", "loss_mask", "position_ids", "attention_mask", "actual_seq_len")
DEFAULT_COLUMNS = ("input_ids", "labels", "loss_mask", "position_ids")


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnOptions:
    """What the columns show of the boundaries.

    Attributes:
        names: The columns to build, in order.
        loss_mask: Which inputs have no loss. ``none``: none but padding and repeats; ``eod``: the inputs that are EOD
            tokens (Megatron's ``eod_mask_loss``); ``boundary``: the inputs whose label belongs to another document;
            ``first_document``: those, and all inputs behind the first document of the sample.
        reset_position_ids: Whether positions start again at every boundary.
        reset_attention_mask: Whether the dense mask keeps documents apart, or is merely causal.
        eod_id: The EOD token, for ``loss_mask="eod"``.
        eod_pad_length: Width of ``actual_seq_len``.
    """

    names: tuple[str, ...] = DEFAULT_COLUMNS
    loss_mask: LossMask = "none"
    reset_position_ids: bool = False
    reset_attention_mask: bool = False
    eod_id: int | None = None
    eod_pad_length: int = 128

    @property
    def show_boundaries(self) -> bool:
        """Whether any column depends on where documents begin."""
        return (
            ("loss_mask" in self.names and self.loss_mask in ("boundary", "first_document"))
            or ("position_ids" in self.names and self.reset_position_ids)
            or ("attention_mask" in self.names and self.reset_attention_mask)
            or "actual_seq_len" in self.names
        )


def loss_masks(kind: LossMask, inputs: I32, marks: I64, segments: I64, counted: I64, eod_id: int | None) -> I32:
    """Builds the loss mask: 1 where the prediction of the next token counts.

    Args:
        kind: See ``ColumnOptions.loss_mask``.
        inputs: int32[B, L].
        marks: int64[K], the boundaries (see ``boundaries``), ascending and distinct.
        segments: int64[S], as ``segments_of`` gives them for ``marks``.
        counted: int64[B], how many leading inputs can count at all; at least 1.
        eod_id: The EOD token, for ``kind="eod"``.

    Returns:
        int32[B, L]. A row that the rule would leave without any loss keeps all its counted inputs: a sample of zeros
        gives 0 / 0 in the mean of the loss, and a training that ends in NaN.
    """
    rows, length = inputs.shape
    partial = np.flatnonzero(counted < length)
    if kind == "none" and not partial.size:
        return np.broadcast_to(np.ones(length, dtype=np.int32), inputs.shape)
    if kind == "first_document":
        return _first_document(marks, segments, counted, rows, length)
    mask = (inputs != eod_id).astype(np.int32) if kind == "eod" else np.ones(inputs.shape, dtype=np.int32)
    if kind == "boundary":
        row, column = np.divmod(marks, length + 1)
        mask[row, column - 1] = 0
    for row in partial.tolist():
        mask[row, counted[row] :] = 0
    if kind != "none":
        for row in np.flatnonzero(~mask.any(axis=1)).tolist():
            mask[row, : counted[row]] = 1
    return mask


def _first_document(marks: I64, segments: I64, counted: I64, rows: int, length: int) -> I32:
    row, begin = np.divmod(segments, length)
    end = begin + np.diff(segments, append=rows * length)
    # The last input of a segment has its label in the next one, if there is one.
    places = row * (length + 1) + end
    crossing = marks[np.minimum(np.searchsorted(marks, places), marks.size - 1)] == places if marks.size else False
    reached = np.minimum(end, counted[row])
    own = np.maximum(reached - begin, 0) - (crossing & (end <= counted[row]))
    # The first document that can be learnt from: one of a single token has no label of its own.
    learnable = np.flatnonzero(own > 0)
    opening = learnable[np.unique(row[learnable], return_index=True)[1]]
    start, size = np.arange(rows) * length, counted.copy()
    start[row[opening]], size[row[opening]] = segments[opening], own[opening]
    mask = np.zeros(rows * length, dtype=np.int32)
    mask[ranges(start, size)] = 1
    return mask.reshape(rows, length)


def reset_positions(segments: I64, rows: int, length: int) -> I32:
    """Positions that start again at each segment: int64[S] → int32[B, L]."""
    positions = np.arange(rows * length, dtype=np.int32)
    positions -= np.repeat(segments.astype(np.int32), np.diff(segments, append=rows * length))
    return positions.reshape(rows, length)


def segment_ends(segments: I64, rows: int, length: int, width: int) -> I32:
    """Compressed masks: the cumulative ends of the segments, filled up with L. int64[S] → int32[B, width]."""
    row, column = np.divmod(segments, length)
    ends = np.full((rows, width), length, dtype=np.int32)
    inner = np.flatnonzero(column)
    # The first segment of a row starts at column 0; the k-th after it ends the one before, and is the k-th end.
    rank = inner - np.searchsorted(row, row[inner]) - 1
    ends[row[inner], rank] = column[inner]
    return ends


def dense_masks(segments: I64 | None, rows: int, length: int) -> I32:
    """MindFormers' dense attention masks, int32[B, 1, L, L], 1 = *may not attend*: causal, within segments if given."""
    blocked = ~np.tri(length, dtype=np.bool_)
    if segments is None:
        return np.broadcast_to(blocked.astype(np.int32), (rows, 1, length, length))
    starts = np.arange(length, dtype=np.int32) - reset_positions(segments, rows, length)
    before = np.arange(length, dtype=np.int32)[None, None, :] < starts[:, :, None]
    return (before | blocked)[:, None].astype(np.int32)


def build_columns(
    tokens: I32, marks: I64, counted: I64, options: ColumnOptions
) -> tuple[dict[str, npt.NDArray[np.int32]], int]:
    """Builds the columns of B samples.

    Args:
        tokens: int32[B, L + 1].
        marks: int64[K], the boundaries (see ``boundaries``), ascending and distinct.
        counted: int64[B], leading inputs that count in the loss; at least 1.
        options: What to build.

    Returns:
        The columns by name, first dimension B (``input_ids`` and ``labels`` are views of ``tokens``), and how many
        boundaries were given up because a sample had more segments than ``actual_seq_len`` holds. Positions and both
        attention masks agree on the segments that are left; the loss mask always follows the documents.
    """
    rows, length = tokens.shape[0], tokens.shape[1] - 1
    names: Sequence[str] = options.names
    documents = segments_of(marks, rows, length)
    segments, joined = documents, 0
    if "actual_seq_len" in names:
        segments, joined = join_segments(documents, rows, length, options.eod_pad_length)
    columns: dict[str, npt.NDArray[np.int32]] = {}
    for name in names:
        if name == "input_ids":
            columns[name] = tokens[:, :-1]
        elif name == "labels":
            columns[name] = tokens[:, 1:]
        elif name == "loss_mask":
            columns[name] = loss_masks(options.loss_mask, tokens[:, :-1], marks, documents, counted, options.eod_id)
        elif name == "position_ids":
            columns[name] = (
                reset_positions(segments, rows, length)
                if options.reset_position_ids
                else np.broadcast_to(np.arange(length, dtype=np.int32), (rows, length))
            )
        elif name == "attention_mask":
            columns[name] = dense_masks(segments if options.reset_attention_mask else None, rows, length)
        else:
            columns[name] = segment_ends(segments, rows, length, options.eod_pad_length)
    return columns, joined
