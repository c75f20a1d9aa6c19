"""The random-access source behind MindSpore's pipeline: sample number in, a row or a whole batch out.

A row read alone costs many times what it costs among others: hundreds are laid out at once, and then read some at a
time. All in the thread that asks: a second one would only take turns with MindSpore's own for the interpreter's lock,
which costs more than reading. What is kept is a memo and nothing else: what is returned depends on the number only.
"""

import os
import threading
from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from mindformers_megatron.sampling.layout import Layout
from mindformers_megatron.sampling.plan import SamplePlan
from mindformers_megatron.sampling.rows import rows_at_once

T = TypeVar("T")
I32 = npt.NDArray[np.int32]
# A row or a batch: its columns.
Item = tuple[I32, ...]
# A group or a block of items, and which of the ``stride`` readers asks.
Place = tuple[int, int]

# Rows that are laid out at once, and, where the plan has to read tokens for that, their bytes.
BLOCK_ROWS = 512
BLOCK_BYTES = 16 * 2**20


class SampleSource(Sequence[Item]):
    """The samples of a plan, for ``GeneratorDataset``: safe between threads, in forked processes, and when pickled.

    MindSpore passes arrays on without copying them, down to the user, who may write to them. So each has memory of its
    own, and what is asked for again is read again.

    Attributes:
        plan: Where the samples come from.
        stride: Distance of the samples that one reader asks for in a row: the number of ranks, times the number of
            worker processes where there are any. Blocks hold samples at this distance.
        batch_size: Rows of a batch, which are ``stride`` apart; None: single rows.
    """

    def __init__(self, plan: SamplePlan, stride: int = 1, batch_size: int | None = None) -> None:
        """Sets up an empty memo."""
        self.plan = plan
        self.stride = stride
        self.batch_size = batch_size
        self._rows = batch_size or 1
        length = 4 * plan.seq_length
        longest = length * plan.seq_length if "attention_mask" in plan.spec.columns else length
        # However short rows are, the first of them waits for no more than a block.
        self._items = max(1, min(BLOCK_ROWS, rows_at_once(longest)) // self._rows)
        self._groups_per_block = max(1, min(BLOCK_ROWS, BLOCK_BYTES // length) // (self._items * self._rows))
        self._forget()

    def follow(self, plan: SamplePlan) -> None:
        """Reads from another plan from now on; for a run that goes on from a state, before its first row is read."""
        self.plan = plan
        self._forget()

    def in_batches(self, batch_size: int) -> "SampleSource":
        """The same samples, but whole batches for the numbers of their first ones."""
        return type(self)(self.plan, self.stride, batch_size)

    def __len__(self) -> int:
        return len(self.plan)

    def __getitem__(self, sample: Any) -> Any:
        """The row of a sample, any number ≥ 0, or the batch that begins with it.

        Returns:
            int32 arrays in the order of the plan's columns, shaped as a row of ``SamplePlan.read``; those of a batch
            are one dimension larger.
        """
        number, lane = divmod(int(sample), self._rows * self.stride)
        group, place = divmod(number, self._items)
        item = None
        # Again, where another thread has taken it first.
        while item is None:
            items = self._groups.get((group, lane), [])
            if place >= len(items) or items[place] is None:
                items = self._read(group, lane, place)
            if place >= len(items):
                # Megatron's order ends; the plan says where.
                self.plan.read(int(sample) + self.stride * np.arange(self._rows, dtype=np.int64))
            item, items[place] = items[place], None
        return item

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.plan, self.stride, self.batch_size)

    def _forget(self) -> None:
        self._layouts: dict[Place, Layout] = {}
        self._groups: dict[Place, list[Item | None]] = {}
        self._lock = threading.Lock()
        self._process = os.getpid()

    def _read(self, group: int, lane: int, wanted: int) -> list[Item | None]:
        if self._process != os.getpid():
            # A forked process may have got the lock closed.
            self._forget()
        # Under a lock, because a second thread would only read the same rows again.
        with self._lock:
            items = self._groups.get((group, lane), [])
            if wanted < len(items) and items[wanted] is not None:
                return items
            block, place = divmod(group, self._groups_per_block)
            layout = self._layouts.get((block, lane))
            if layout is None:
                layout = self._lay_out(block, lane)
                self._layouts = _with(self._layouts, (block, lane), layout)
            if (block - 1, lane) in self._layouts:
                # Who goes on in order reads the next one too, whose reads are announced by laying it out.
                self._layouts = _with(self._layouts, (block + 1, lane), self._lay_out(block + 1, lane))
            rows = self._items * self._rows
            first = min(place * rows, len(layout))
            items = self._items_of(layout.columns(first, min(first + rows, len(layout))))
            self._groups = _with(self._groups, (group, lane), items)
            return items

    def _items_of(self, columns: dict[str, I32]) -> list[Item | None]:
        own = [column if column.flags.writeable else column.copy() for column in columns.values()]
        if self.batch_size is None:
            return list(zip(*own, strict=True))
        rows = self.batch_size
        # Only whole batches: the last ones of an order that ends may be too few.
        ends = range(rows, len(own[0]) + 1, rows)
        return [tuple(column[end - rows : end] for column in own) for end in ends]

    def _lay_out(self, block: int, lane: int) -> Layout:
        items = self._groups_per_block * self._items
        first = np.arange(block * items, (block + 1) * items, dtype=np.int64) * (self._rows * self.stride) + lane
        samples = (first[:, None] + self.stride * np.arange(self._rows)).reshape(-1)
        if self.plan.end is not None:
            samples = samples[samples < self.plan.end]
        return self.plan.lay_out(samples)


def _with(memo: dict[Place, T], place: Place, value: T) -> dict[Place, T]:
    """A memo with one more entry; two are kept, because threads do not pass from one to the next at the same time."""
    return dict([*list(memo.items())[-1:], (place, value)])
