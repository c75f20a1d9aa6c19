"""The columns of a batch, from its tokens and its boundaries.

Every column is int32, as MindFormers' own loaders give them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from mindformers_megatron.sampling.boundaries import Flags, join_segments

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


def loss_masks(kind: LossMask, inputs: I32, flags: Flags, counted: I64, eod_id: int | None) -> I32:
    """Builds the loss mask: 1 where the prediction of the next token counts.

    Args:
        kind: See ``ColumnOptions.loss_mask``.
        inputs: int32[B, L].
        flags: bool[B, L + 1], the boundaries among inputs and the last label.
        counted: int64[B], how many leading inputs can count at all.
        eod_id: The EOD token, for ``kind="eod"``.

    Returns:
        int32[B, L]. A row that the rule would leave without any loss keeps all its counted inputs: a sample of zeros
        gives 0 / 0 in the mean of the loss, and a training that ends in NaN.
    """
    length = inputs.shape[1]
    if kind == "none" and counted.min(initial=length) == length:
        return np.broadcast_to(np.ones(length, dtype=np.int32), inputs.shape)
    allowed = np.arange(length) < counted[:, None]
    if kind == "none":
        return allowed.astype(np.int32)
    crossing = flags[:, 1:]
    if kind == "eod":
        mask = allowed & (inputs != eod_id)
    elif kind == "boundary":
        mask = allowed & ~crossing
    else:
        inside = allowed & ~crossing
        # The first document that can be learnt from: one of a single token has no label of its own.
        opening = inside.argmax(axis=1)
        segment = np.cumsum(flags[:, :-1], axis=1, dtype=np.int32)
        mask = inside & (segment == segment[np.arange(len(inputs)), opening][:, None])
    empty = ~mask.any(axis=1)
    if empty.any():
        mask[empty] = allowed[empty]
    return mask.astype(np.int32)


def segment_starts(flags: Flags) -> I32:
    """For each input the column where its segment begins: bool[B, L] → int32[B, L]."""
    opens = flags.copy()
    opens[:, 0] = True
    place = np.flatnonzero(opens)
    starts = (place % flags.shape[1]).astype(np.int32)
    return np.repeat(starts, np.diff(place, append=flags.size)).reshape(flags.shape)


def segment_ends(flags: Flags, width: int) -> I32:
    """Compressed masks: the cumulative ends of the segments, filled up with L. bool[B, L] → int32[B, width]."""
    rows, length = flags.shape
    ends = np.full((rows, width), length, dtype=np.int32)
    row, column = np.nonzero(flags)
    rank = np.arange(row.size) - np.searchsorted(row, row)
    ends[row, rank] = column
    return ends


def dense_masks(flags: Flags | None, rows: int, length: int) -> I32:
    """MindFormers' dense attention masks, int32[B, 1, L, L], 1 = *may not attend*: causal, within segments if given."""
    blocked = ~np.tri(length, dtype=np.bool_)
    if flags is None:
        return np.broadcast_to(blocked.astype(np.int32), (rows, 1, length, length))
    starts = segment_starts(flags)
    before = np.arange(length, dtype=np.int32)[None, None, :] < starts[:, :, None]
    return (before | blocked)[:, None].astype(np.int32)


def build_columns(
    tokens: I32, flags: Flags, counted: I64, options: ColumnOptions
) -> tuple[dict[str, npt.NDArray[np.int32]], int]:
    """Builds the columns of B samples.

    Args:
        tokens: int32[B, L + 1].
        flags: bool[B, L + 1], the boundaries.
        counted: int64[B], leading inputs that count in the loss.
        options: What to build.

    Returns:
        The columns by name, first dimension B (``input_ids`` and ``labels`` are views of ``tokens``), and how many
        boundaries were given up because a sample had more segments than ``actual_seq_len`` holds. Positions and both
        attention masks agree on the segments that are left; the loss mask always follows the documents.
    """
    rows, length = tokens.shape[0], tokens.shape[1] - 1
    names: Sequence[str] = options.names
    segments, joined = flags[:, :-1], 0
    if "actual_seq_len" in names:
        segments, joined = join_segments(segments, options.eod_pad_length)
    columns: dict[str, npt.NDArray[np.int32]] = {}
    for name in names:
        if name == "input_ids":
            columns[name] = tokens[:, :-1]
        elif name == "labels":
            columns[name] = tokens[:, 1:]
        elif name == "loss_mask":
            columns[name] = loss_masks(options.loss_mask, tokens[:, :-1], flags, counted, options.eod_id)
        elif name == "position_ids":
            positions = np.arange(length, dtype=np.int32)
            columns[name] = (
                positions - segment_starts(segments)
                if options.reset_position_ids
                else np.broadcast_to(positions, (rows, length))
            )
        elif name == "attention_mask":
            columns[name] = dense_masks(segments if options.reset_attention_mask else None, rows, length)
        else:
            columns[name] = segment_ends(segments, options.eod_pad_length)
    return columns, joined
