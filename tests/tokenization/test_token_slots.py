"""Tokens on their way from one process to another."""

import os
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays_of

from mindformers_megatron.execution.processes import WorkerPool
from mindformers_megatron.tokenization.token_slots import TokenSlots

ARRAYS = arrays_of.arrays(np.uint16, st.integers(0, 50))


@given(st.lists(st.lists(ARRAYS, max_size=4), max_size=3), st.lists(st.lists(ARRAYS, max_size=4), max_size=3))
def test_what_is_put_into_a_slot_is_read_from_it_each_time(first: list[Any], second: list[Any]) -> None:
    slots = TokenSlots(1, np.dtype(np.uint16))
    for arrays in (first, second):
        slot = slots.take()
        found = slots.read(slot, slots.put(slot, arrays))
        assert [[array.tolist() for array in of_key] for of_key in found] == [
            [array.tolist() for array in of_key] for of_key in arrays
        ]
        del found
    slots.close()


def test_a_slot_is_free_when_none_of_its_arrays_is_left() -> None:
    slots = TokenSlots(2, np.dtype(np.int32))
    first, second = slots.take(), slots.take()
    ((kept, other),) = slots.read(first, slots.put(first, [[np.arange(5, dtype=np.int32)] * 2]))
    part = kept[1:3]
    assert slots.read(second, slots.put(second, [[np.zeros(3, np.int32)]]))
    assert slots.take() == second
    del kept, other
    slots.read(second, slots.put(second, [[np.ones(3, np.int32)]]))
    assert slots.take() == second
    assert part.tolist() == [1, 2]
    del part
    assert slots.take() == first
    slots.close()


def test_arrays_outlive_the_slots() -> None:
    slots = TokenSlots(1, np.dtype(np.int32))
    ((array,),) = slots.read(0, slots.put(0, [[np.arange(1000, dtype=np.int32)]]))
    slots.close()
    assert array.sum() == 499_500
    with pytest.raises(ValueError, match="read-only"):
        array[0] = 1


def test_forks_put_and_this_process_reads() -> None:
    slots = TokenSlots(3, np.dtype(np.int32))

    def make_worker(number: int, notify: Any) -> Any:
        return lambda slot: (os.getpid(), slots.put(slot, [[np.full(100_000, slot, np.int32)]]))

    with WorkerPool(2, forked_with=make_worker) as pool:
        for slot, (pid, spans) in enumerate(pool.map(None, range(3))):
            ((array,),) = slots.read(slot, spans)
            assert pid != os.getpid() and array.size == 100_000 and (array == slot).all()
    slots.close()


def test_memory_of_a_large_part_is_not_kept() -> None:
    slots = TokenSlots(1, np.dtype(np.int32))
    (descriptor,) = slots._descriptors
    slots.read(0, slots.put(0, [[np.zeros(20_000_000, np.int32)]]))
    assert os.fstat(descriptor).st_blocks * 512 >= 80_000_000
    slots.read(0, slots.put(0, [[np.zeros(1_000, np.int32)]]))
    assert os.fstat(descriptor).st_blocks * 512 < 100_000
    slots.close()
