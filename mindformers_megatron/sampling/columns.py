"""The columns of a batch, and what they show of the boundaries."""

from dataclasses import dataclass
from typing import Literal

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
    def needs_eod(self) -> bool:
        """Whether a column depends on which tokens are EOD."""
        return "loss_mask" in self.names and self.loss_mask == "eod"

    @property
    def show_boundaries(self) -> bool:
        """Whether any column depends on where documents begin."""
        return (
            ("loss_mask" in self.names and self.loss_mask in ("boundary", "first_document"))
            or ("position_ids" in self.names and self.reset_position_ids)
            or ("attention_mask" in self.names and self.reset_attention_mask)
            or "actual_seq_len" in self.names
        )
