"""Batches without MindSpore's pipeline: the endless iterator behind ``create_iterator``."""

from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from mindformers_megatron.sampling.plan import SamplePlan
from mindformers_megatron.sampling.shards import Shard
from mindformers_megatron.settings.history import Stretch

Batch = dict[str, npt.NDArray[np.int32]]

BLOCK_ROWS = 256
BLOCK_BYTES = 16 * 2**20


@dataclass(slots=True)
class Cursor:
    """How far a run has come: the one thing about a loader that changes.

    Attributes:
        consumed_samples: Samples delivered, over all ranks.
        looked_up: Steps that MindFormers resumed at, for which a data state has been looked for.
        history: How the run was cut into steps before it was resumed.
    """

    consumed_samples: int = 0
    looked_up: set[int] = field(default_factory=set)
    history: tuple[Stretch, ...] = ()

    def __deepcopy__(self, memo: dict[int, object]) -> "Cursor":
        # MindSpore copies a dataset for every iterator over it; all of them tell the one the user holds.
        return self


def batches(
    plan: SamplePlan, shard: Shard, cursor: Cursor, *, batch_size: int, workers: int, prefetch: int
) -> Iterator[Batch]:
    """Yields the rank's batches from the cursor on, without end (but Megatron's order has one).

    Args:
        plan: Where the samples come from.
        shard: The rank's share.
        cursor: Moved on by ``batch_size`` samples on every rank just before a batch is yielded, never for one that is
            only read ahead.
        batch_size: B, rows in a batch.
        workers: Threads that read.
        prefetch: Batches that are read ahead, at least.

    Yields:
        The plan's columns by name, int32[B, ...]; views of larger arrays, never written to again.
    """
    per_read = max(1, rows_per_block(plan) // batch_size)
    start = cursor.consumed_samples

    def read(number: int) -> Batch:
        rows = per_read * batch_size
        samples = shard.samples(start, number * rows, rows)
        if plan.end is not None:
            # Whole global batches only, so that every rank ends with the same one.
            last = start + (plan.end - start) // (batch_size * shard.ranks) * (batch_size * shard.ranks)
            samples = samples[samples < last]
        return plan.read(samples)

    # Not shut down by hand: an iterator that is dropped frees the pool and so ends its threads, and one that lives as
    # long as the program would do it when the interpreter has already taken the threads' queue away.
    pool = ThreadPoolExecutor(workers, thread_name_prefix="mindformers_megatron")
    ahead: deque[Future[Batch]] = deque()
    submitted = 0
    while True:
        while len(ahead) < -(-prefetch // per_read) + 1:
            ahead.append(pool.submit(read, submitted))
            submitted += 1
        block = ahead.popleft().result()
        rows = len(next(iter(block.values())))
        if not rows:
            return
        for first in range(0, rows, batch_size):
            cursor.consumed_samples += batch_size * shard.ranks
            yield {name: column[first : first + batch_size] for name, column in block.items()}


def rows_per_block(plan: SamplePlan) -> int:
    """Rows to read at once: many enough to be quick, few enough for their columns to stay small."""
    length = plan.seq_length
    row = 4 * length * len(plan.spec.columns)
    if "attention_mask" in plan.spec.columns:
        row += 4 * length * length
    return max(1, min(BLOCK_ROWS, BLOCK_BYTES // row))
