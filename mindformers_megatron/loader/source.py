"""The random-access source behind MindSpore's pipeline: sample number in, one row out.

MindSpore asks for single rows, but a row alone costs many times what it costs among others: a block of rows is computed
at once and handed out as views. The blocks are a memo and nothing else: what is returned depends on the number only.
"""

import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from mindformers_megatron.sampling.plan import SamplePlan

Row = tuple[npt.NDArray[np.int32], ...]

BLOCK_ROWS = 128
BLOCK_BYTES = 16 * 2**20


class SampleSource(Sequence[Row]):
    """The rows of a plan, for ``GeneratorDataset``: thread-safe, and picklable for worker processes.

    Attributes:
        plan: Where the samples come from.
        stride: Distance of the samples that one reader asks for in a row: the number of ranks, times the number of
            worker processes where there are any. Blocks hold samples at this distance.
    """

    def __init__(self, plan: SamplePlan, stride: int = 1, readers: int = 1) -> None:
        """Sets up an empty memo.

        Args:
            plan: Where the samples come from.
            stride: See above.
            readers: Threads that read at the same time; each may be in a block of its own.
        """
        self.plan = plan
        self.stride = stride
        self._rows_per_block = _rows_per_block(plan)
        self._kept = readers + 1
        self._blocks: dict[tuple[int, int], list[Row]] = {}
        self._lock = threading.Lock()

    def follow(self, plan: SamplePlan) -> None:
        """Reads from another plan from now on; for a run that goes on from a state, before its first row is read."""
        with self._lock:
            self.plan, self._blocks = plan, {}

    def __len__(self) -> int:
        return len(self.plan)

    def __getitem__(self, sample: Any) -> Any:
        """The row of one sample, any number ≥ 0: a tuple of int32 arrays in the order of the plan's columns."""
        number, lane = divmod(int(sample), self.stride)
        block, row = divmod(number, self._rows_per_block)
        rows = self._blocks.get((block, lane))
        if rows is None:
            rows = self._compute(block, lane)
        return rows[row]

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_blocks": {}, "_lock": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._lock = threading.Lock()

    def _compute(self, block: int, lane: int) -> list[Row]:
        # Under a lock, because a second thread would only compute the same block again.
        with self._lock:
            rows = self._blocks.get((block, lane))
            if rows is None:
                numbers = np.arange(block * self._rows_per_block, (block + 1) * self._rows_per_block, dtype=np.int64)
                columns = self.plan.read(numbers * self.stride + lane)
                rows = list(zip(*(columns[name] for name in self.plan.spec.columns), strict=True))
                kept = list(self._blocks.items())[-self._kept + 1 :] if self._kept > 1 else []
                self._blocks = dict([*kept, ((block, lane), rows)])
            return rows


def _rows_per_block(plan: SamplePlan) -> int:
    length = plan.seq_length
    row = 4 * length * len(plan.spec.columns)
    if "attention_mask" in plan.spec.columns:
        row += 4 * length * length
    return max(1, min(BLOCK_ROWS, BLOCK_BYTES // row))
