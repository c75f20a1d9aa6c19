"""The random-access source behind MindSpore's pipeline: sample number in, one row out.

MindSpore asks for single rows, but a row alone costs many times what it costs among others: hundreds of rows are laid
out at once, and then read a few at a time. All in the thread that asks: a second one would only take turns with
MindSpore's own for the interpreter's lock, which costs more than reading. What is kept is a memo and nothing else: what
is returned depends on the number only.
"""

import os
import threading
from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np

from mindformers_megatron.sampling.layout import Layout, Row
from mindformers_megatron.sampling.plan import SamplePlan
from mindformers_megatron.sampling.rows import rows_at_once

T = TypeVar("T")
# A group or a block of rows, and which of the ``stride`` readers asks.
Place = tuple[int, int]

# Rows that are laid out at once, and, where the plan has to read tokens for that, their bytes.
BLOCK_ROWS = 512
BLOCK_BYTES = 16 * 2**20


class SampleSource(Sequence[Row]):
    """The rows of a plan, for ``GeneratorDataset``: safe between threads, in forked processes, and when pickled.

    Attributes:
        plan: Where the samples come from.
        stride: Distance of the samples that one reader asks for in a row: the number of ranks, times the number of
            worker processes where there are any. Blocks hold samples at this distance.
    """

    def __init__(self, plan: SamplePlan, stride: int = 1) -> None:
        """Sets up an empty memo."""
        self.plan = plan
        self.stride = stride
        length = 4 * plan.seq_length
        longest = length * plan.seq_length if "attention_mask" in plan.spec.columns else length
        # However short rows are, the first of them waits for no more than a block.
        self._at_once = min(BLOCK_ROWS, rows_at_once(longest))
        self._groups_per_block = max(1, min(BLOCK_ROWS, BLOCK_BYTES // length) // self._at_once)
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
        group, row = divmod(number, self._at_once)
        rows = self._rows.get((group, lane))
        if rows is None:
            rows = self._read(group, lane)
        if row >= len(rows):
            # Megatron's order ends; the plan says where.
            self.plan.read(np.array([sample], dtype=np.int64))
        return rows[row]

    def __getstate__(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in ("plan", "stride", "_at_once", "_groups_per_block")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._forget()

    def _forget(self) -> None:
        self._layouts: dict[Place, Layout] = {}
        self._rows: dict[Place, list[Row]] = {}
        self._lock = threading.Lock()
        self._process = os.getpid()

    def _read(self, group: int, lane: int) -> list[Row]:
        if self._process != os.getpid():
            # A forked process may have got the lock closed.
            self._forget()
        # Under a lock, because a second thread would only read the same rows again.
        with self._lock:
            rows = self._rows.get((group, lane))
            if rows is None:
                block, place = divmod(group, self._groups_per_block)
                layout = self._layouts.get((block, lane))
                if layout is None:
                    layout = self._lay_out(block, lane)
                    self._layouts = _with(self._layouts, (block, lane), layout)
                if (block - 1, lane) in self._layouts:
                    # Who goes on in order reads the next one too, whose reads are announced by laying it out.
                    self._layouts = _with(self._layouts, (block + 1, lane), self._lay_out(block + 1, lane))
                first = min(place * self._at_once, len(layout))
                rows = layout.rows(first, min(first + self._at_once, len(layout)))
                self._rows = _with(self._rows, (group, lane), rows)
            return rows

    def _lay_out(self, block: int, lane: int) -> Layout:
        size = self._groups_per_block * self._at_once
        samples = np.arange(block * size, (block + 1) * size, dtype=np.int64) * self.stride + lane
        if self.plan.end is not None:
            samples = samples[samples < self.plan.end]
        return self.plan.lay_out(samples)


def _with(memo: dict[Place, T], place: Place, value: T) -> dict[Place, T]:
    """A memo with one more entry; two are kept, because threads do not pass from one to the next at the same time."""
    return dict([*list(memo.items())[-1:], (place, value)])
