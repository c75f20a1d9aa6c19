"""Memory in which worker processes leave tokens for the process that writes them."""

import mmap
import os
import weakref
from collections.abc import Sequence
from itertools import accumulate, chain, islice
from queue import SimpleQueue
from typing import Any

import numpy as np
from numpy.typing import NDArray

# What a slot may keep of memory while nothing is in it.
_MOST_KEPT = 1 << 26


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

    def put(self, slot: int, arrays: Sequence[Sequence[NDArray[Any]]]) -> list[list[int]]:
        """Copies arrays into a slot, one behind the other; for a fork. Returns how many elements each has."""
        descriptor = self._descriptors[slot]
        if os.fstat(descriptor).st_size > _MOST_KEPT:
            os.ftruncate(descriptor, 0)
        position = 0
        for array in chain.from_iterable(arrays):
            data = array.data.cast("B")
            while data:
                written = os.pwrite(descriptor, data, position)
                data, position = data[written:], position + written
        return [[array.size for array in of_key] for of_key in arrays]

    def read(self, slot: int, sizes: Sequence[Sequence[int]]) -> tuple[tuple[NDArray[Any], ...], ...]:
        """What a fork has put into a slot. The slot is free again when none of these arrays is left."""
        tokens = self._map(slot, sum(map(sum, sizes)))
        ends = list(accumulate(chain.from_iterable(sizes)))
        arrays = iter(np.split(tokens, ends[:-1]))
        return tuple(tuple(islice(arrays, len(of_key))) for of_key in sizes)

    def _map(self, slot: int, size: int) -> NDArray[Any]:
        if not size:  # nothing can be mapped
            self._free.put(slot)
            return np.empty(0, self._dtype)
        # All of it at once: a fault for every few pages would cost more than to read them.
        flags = mmap.MAP_SHARED | mmap.MAP_POPULATE
        shared = mmap.mmap(self._descriptors[slot], size * self._dtype.itemsize, flags, mmap.PROT_READ)
        weakref.finalize(shared, self._free.put, slot)
        return np.frombuffer(shared, self._dtype)

    def close(self) -> None:
        """Lets go of all memory but that of arrays that are left."""
        for descriptor in self._descriptors:
            os.close(descriptor)
        self._descriptors = []
