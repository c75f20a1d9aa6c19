"""Ranges do what sets do."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from mindformers_megatron.format.verify.spans import (
    complement,
    no_spans,
    numbers_of,
    size_of,
    spans_of,
    spans_of_mask,
    union,
    within,
)

numbers = st.sets(st.integers(0, 60))


def spans(some: set[int]) -> np.ndarray:
    return spans_of(np.array(sorted(some), np.int64))


def as_set(ranges: np.ndarray) -> set[int]:
    flat = ranges.ravel()
    assert (flat[1:] > flat[:-1]).all(), "ascending, and none is empty or touches the next"
    return set(numbers_of(ranges).tolist())


@given(numbers)
def test_a_set_comes_back_from_its_ranges(some: set[int]) -> None:
    assert as_set(spans(some)) == some
    assert size_of(spans(some)) == len(some)
    mask = np.array([number in some for number in range(61)])
    np.testing.assert_array_equal(spans_of_mask(mask), spans(some))


@given(st.lists(numbers, max_size=4))
def test_a_union_has_what_is_in_any(sets: list[set[int]]) -> None:
    assert as_set(union(spans(some) for some in sets)) == set().union(*sets)


@given(numbers, st.integers(0, 60), st.integers(0, 60))
def test_a_stretch_has_what_is_in_the_set_and_what_is_not(some: set[int], begin: int, end: int) -> None:
    begin, end = min(begin, end), max(begin, end)
    inside = set(range(begin, end))
    assert set(numbers_of(within(spans(some), begin, end)).tolist()) == some & inside
    assert as_set(complement(spans(some), begin, end)) == inside - some


def test_nothing_is_a_set_too() -> None:
    assert numbers_of(no_spans()).size == 0
    assert complement(no_spans(), 3, 5).tolist() == [[3, 5]]
