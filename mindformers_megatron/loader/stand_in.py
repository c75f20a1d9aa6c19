"""Rows for ranks whose data nobody looks at: of the right shape, without reading any file.

With ``dataset_broadcast_opt_level`` MindSpore sends a batch from one rank to its tensor-parallel peers, and middle
stages of a pipeline take none at all. Such ranks must deliver something of the same shape all the same.
"""

from typing import Any

import mindspore
import numpy as np
import numpy.typing as npt
from mindformers.core.context.build_context import Context, get_context
from mindformers.dataset.dataloader.blended_megatron_dataloader import is_dataset_built_on_rank
from mindformers.tools.utils import get_real_group_size

from mindformers_megatron.loader.source import Item, SampleSource
from mindformers_megatron.sampling.plan import SamplePlan
from mindformers_megatron.sampling.spec import PlanSpec

# The modes in which MindSpore broadcasts batches.
_SEMI_AUTO = ("semi_auto_parallel", "auto_parallel")


def needs_no_data() -> bool:
    """Whether MindFormers, in this process, has no use for what this rank reads."""
    if not Context.is_exists() or get_real_group_size() == 1:
        return False
    if mindspore.get_auto_parallel_context("parallel_mode") not in _SEMI_AUTO:
        return False
    # MindFormers asks this of its own loaders only, in graph mode, and where it knows how columns are cut.
    strategy = mindspore.get_auto_parallel_context("dataset_strategy")
    if not get_context("dataset_broadcast_opt_level") or not isinstance(strategy, tuple | list):
        return False
    graph_mode = mindspore.get_context("mode") == mindspore.GRAPH_MODE
    return graph_mode and not is_dataset_built_on_rank()


class StandInSource(SampleSource):
    """A source whose rows are all the same: one row, held once, whatever its length.

    It knows the plan, as those of other ranks do, so that the state and the length of an epoch are theirs.
    """

    def __init__(self, plan: SamplePlan, stride: int = 1, batch_size: int | None = None) -> None:
        """Builds the row, or the batch."""
        super().__init__(plan, stride, batch_size)
        self._item = stand_in_row(plan.spec)
        if batch_size is not None:
            self._item = tuple(np.repeat(column[None], batch_size, axis=0) for column in self._item)

    def __getitem__(self, sample: Any) -> Any:
        """The row or batch, for any number."""
        return self._item


def stand_in_row(spec: PlanSpec) -> Item:
    """A sample of one document of padding, in the columns of a plan: int32, shapes as ``SamplePlan`` gives them.

    It has a loss, lest a mean over none be not a number.
    """
    length = spec.seq_length
    columns: dict[str, npt.NDArray[np.int32]] = {
        "input_ids": np.full(length, spec.pad_id, np.int32),
        "labels": np.full(length, spec.pad_id, np.int32),
        "loss_mask": np.ones(length, np.int32),
        "position_ids": np.arange(length, dtype=np.int32),
        "actual_seq_len": np.full(spec.eod_pad_length, length, np.int32),
    }
    if "attention_mask" in spec.columns:
        columns["attention_mask"] = np.triu(np.ones((1, length, length), np.int32), 1)
    return tuple(columns[name] for name in spec.columns)
