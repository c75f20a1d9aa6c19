"""The random-access source behind MindSpore's pipeline: sample number in, one row out.

MindSpore asks for single rows, but a row alone costs many times what it costs among others: a block of rows is computed
at once and handed out as views. While one block is handed out in order, a thread computes the next: NumPy and MindSpore
both spend most of their time outside the interpreter's lock. The blocks are a memo and nothing else: what is returned
depends on the number only.
"""

import os
import threading
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np
import numpy.typing as npt

from mindformers_megatron.sampling.plan import SamplePlan

Row = tuple[npt.NDArray[np.int32], ...]
Block = tuple[int, int]

BLOCK_ROWS = 256
BLOCK_BYTES = 16 * 2**20


class SampleSource(Sequence[Row]):
    """The rows of a plan, for ``GeneratorDataset``: safe between threads, in forked processes, and when pickled.

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
        self._readers = readers
        self._rows_per_block = rows_per_block(plan)
        self._forget()

    def follow(self, plan: SamplePlan) -> None:
        """Reads from another plan from now on; for a run that goes on from a state, before its first row is read."""
        self.plan = plan
        self._forget()

    def __len__(self) -> int:
        return len(self.plan)

    def __getitem__(self, sample: Any) -> Any:
        """The row of one sample, any number ≥ 0: a tuple of int32 arrays in the order of the plan's columns."""
        number, lane = divmod(int(sample), self.stride)
        block, row = divmod(number, self._rows_per_block)
        rows = self._blocks.get((block, lane))
        if rows is None:
            rows = self._fetch(block, lane)
        if row >= len(rows):
            # Megatron's order ends; the plan says where.
            self.plan.read(np.array([sample], dtype=np.int64))
        return rows[row]

    def __getstate__(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in ("plan", "stride", "_readers", "_rows_per_block")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._forget()

    def _forget(self) -> None:
        self._blocks: dict[Block, list[Row]] = {}
        self._next: dict[Block, Future[list[Row]]] = {}
        self._pool: ThreadPoolExecutor | None = None
        self._lock = threading.Lock()
        self._process = os.getpid()

    def _fetch(self, block: int, lane: int) -> list[Row]:
        if self._process != os.getpid():
            # A forked process has no threads, and may have got the lock closed.
            self._forget()
        # Under a lock, because a second thread would only compute the same block again.
        with self._lock:
            rows = self._blocks.get((block, lane))
            if rows is None:
                begun = self._next.pop((block, lane), None)
                rows = begun.result() if begun else self._compute(block, lane)
                if (block - 1, lane) in self._blocks:
                    self._pool = self._pool or ThreadPoolExecutor(1, thread_name_prefix="mindformers_megatron")
                    self._next = {(block + 1, lane): self._pool.submit(self._compute, block + 1, lane)}
                kept = list(self._blocks.items())[-self._readers :]
                self._blocks = dict([*kept, ((block, lane), rows)])
            return rows

    def _compute(self, block: int, lane: int) -> list[Row]:
        numbers = np.arange(block * self._rows_per_block, (block + 1) * self._rows_per_block, dtype=np.int64)
        samples = numbers * self.stride + lane
        if self.plan.end is not None:
            samples = samples[samples < self.plan.end]
        columns = self.plan.read(samples)
        return list(zip(*(columns[name] for name in self.plan.spec.columns), strict=True))


def rows_per_block(plan: SamplePlan) -> int:
    """Rows to compute at once: many enough to be quick, few enough for their columns to stay in memory."""
    length = plan.seq_length
    row = 4 * length * len(plan.spec.columns)
    if "attention_mask" in plan.spec.columns:
        row += 4 * length * length
    return max(1, min(BLOCK_ROWS, BLOCK_BYTES // row))
