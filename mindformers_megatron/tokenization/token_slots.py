"""Memory in which worker processes leave tokens for the process that writes them."""

import mmap
import os
import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Any

import numpy as np
from numpy.typing import NDArray

# What a slot may keep of memory while nothing is in it.
_MOST_KEPT = 1 << 26


@dataclass(frozen=True, slots=True)
class Span:
    """Where an array stands in a slot: its first byte, and how many elements it has."""

    start: int
    size: int


class TokenSlots:
    """Slots of memory that this process shares with its forks.

    Pipes would copy tokens twice, and unpickle them in the one thread that has to keep pace with all workers. The
    memory has no name: it needs no room in ``/dev/shm``, and is gone with the last process that has it open.

    Args:
        count: slots. As many parts may be on their way: begun, waiting for those before them, being written or summed.
        dtype: type of the tokens.
    """

    def __init__(self, count: int, dtype: np.dtype[Any]) -> None:
        self._dtype = dtype
        self._descriptors = [os.memfd_create("mfm-tokens") for _ in range(count)]
        self._free: SimpleQueue[int] = SimpleQueue()
        for slot in range(count):
            self._free.put(slot)

    def take(self) -> int:
        """A slot that is free, when there is one."""
        return self._free.get()

    def put(self, slot: int, arrays: Sequence[Sequence[NDArray[Any]]]) -> list[list[Span]]:
        """Copies arrays into a slot, from its beginning; for a fork."""
        descriptor = self._descriptors[slot]
        if os.fstat(descriptor).st_size > _MOST_KEPT:
            os.ftruncate(descriptor, 0)
        spans, position = [], 0
        for of_key in arrays:
            spans.append([Span(position, 0) for _ in of_key])
            for place, array in enumerate(of_key):
                spans[-1][place] = Span(position, array.size)
                data = array.data.cast("B")
                while data:
                    written = os.pwrite(descriptor, data, position)
                    data, position = data[written:], position + written
        return spans

    def read(self, slot: int, spans: Sequence[Sequence[Span]]) -> tuple[tuple[NDArray[Any], ...], ...]:
        """What a fork has put into a slot. The slot is free again when none of these arrays is left."""
        size = sum(span.size for of_key in spans for span in of_key) * self._dtype.itemsize
        if not size:
            self._free.put(slot)
            return tuple(tuple(np.empty(0, self._dtype) for _ in of_key) for of_key in spans)
        # All of it at once: a fault for every few pages would cost more than to read them.
        shared = mmap.mmap(self._descriptors[slot], size, mmap.MAP_SHARED | mmap.MAP_POPULATE, mmap.PROT_READ)
        weakref.finalize(shared, self._free.put, slot)
        tokens = np.frombuffer(shared, self._dtype)
        starts = [[span.start // self._dtype.itemsize for span in of_key] for of_key in spans]
        return tuple(
            tuple(tokens[start : start + span.size] for start, span in zip(of_starts, of_key, strict=True))
            for of_starts, of_key in zip(starts, spans, strict=True)
        )

    def close(self) -> None:
        """Lets go of all memory but that of arrays that are left."""
        for descriptor in self._descriptors:
            os.close(descriptor)
        self._descriptors = []
