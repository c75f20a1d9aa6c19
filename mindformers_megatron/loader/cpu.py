"""What MindFormers lacks for training on CPU, and nothing else needs."""

import sys
from typing import Any

import mindspore as ms
import numpy as np
from mindformers.models.llama.llama_transformer import LLamaAttention
from mindformers.wrapper import MFTrainOneStepCell
from mindspore import Tensor, ops
from mindspore.communication import comm_func


class CpuTrainOneStepCell(MFTrainOneStepCell):  # type: ignore[misc]
    """The training step without the overflow check, whose operator CPUs have not (NPUGetFloatStatusV2).

    YAML: ``runner_wrapper: {type: CpuTrainOneStepCell, scale_sense: 1.0}``. In float32, where the scale of the loss is
    1, there is no overflow to look for.
    """

    def get_overflow_status(self, status: Any, compute_output: Any) -> Tensor:
        """No overflow, ever."""
        return Tensor(False)

    def process_loss_scale(self, overflow: Any) -> Any:
        """Leaves the loss scale as it is."""
        return overflow


def apply_dense_masks() -> None:
    """Makes MindFormers' Llama keep to the ``attention_mask`` it is given, without flash attention too.

    There it *adds* the mask to the scores, as it does with the mask of its own, which is made of 0 and -10000. Where
    an input may not attend, a mask of 0 and 1 would raise its score instead, future tokens' included.
    """
    if not hasattr(LLamaAttention, "_attn_added"):
        LLamaAttention._attn_added = LLamaAttention._attn
        LLamaAttention._attn = _attn


# In MindSpore's graph mode this is compiled from its source, as a method of LLamaAttention.
def _attn(self, query, key, value, mask):  # type: ignore[no-untyped-def]
    if mask.dtype == ms.uint8:
        mask = ops.cast(mask, ms.float32) * -10000.0
    return self._attn_added(query, key, value, mask)


def replace_barrier() -> None:
    """Makes ranks on CPU meet in an AllReduce of one zero where MindFormers calls ``barrier``, which CPUs have not."""
    original = comm_func.barrier

    def barrier(group: str | None = None) -> None:
        reduce = ops.AllReduce() if group is None else ops.AllReduce(group=group)
        reduce(Tensor(np.zeros(1, np.float32)))

    comm_func.barrier = barrier
    for name, module in list(sys.modules.items()):
        # Many modules of MindFormers have imported the function by name.
        if name.startswith("mindformers.") and getattr(module, "barrier", None) is original:
            module.barrier = barrier  # type: ignore[attr-defined]
