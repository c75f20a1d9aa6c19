import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from mindformers_megatron.sampling.packing import Group, pack

counted_lengths = st.integers(1, 30).flatmap(
    lambda capacity: st.tuples(
        st.just(capacity),
        st.lists(st.integers(0, 9), min_size=capacity, max_size=capacity).map(lambda counts: np.array([0, *counts])),
    )
)


def best_fit_decreasing(counts: np.ndarray, capacity: int) -> int:
    """Rows that the textbook algorithm needs, item by item."""
    rooms: list[int] = []
    for length in range(capacity, 0, -1):
        for _ in range(counts[length]):
            fitting = [room for room in rooms if room >= length]
            if fitting:
                rooms.remove(min(fitting))
                rooms.append(min(fitting) - length)
            else:
                rooms.append(capacity - length)
    return len(rooms)


def items_of(groups: list[Group]) -> list[tuple[int, int]]:
    return sorted(
        (length, first + row * each + place)
        for group in groups
        for length, first, each in group.items
        for row in range(group.rows)
        for place in range(each)
    )


@given(counted_lengths)
def test_every_item_is_packed_exactly_once(case: tuple[int, np.ndarray]) -> None:
    capacity, counts = case
    assert items_of(pack(counts, capacity)) == [
        (length, item) for length in range(1, capacity + 1) for item in range(counts[length])
    ]


@given(counted_lengths)
def test_no_row_holds_more_than_its_capacity(case: tuple[int, np.ndarray]) -> None:
    capacity, counts = case
    for group in pack(counts, capacity):
        assert group.rows > 0
        assert sum(length * each for length, _, each in group.items) <= capacity


@given(counted_lengths)
def test_it_takes_as_many_rows_as_best_fit_decreasing(case: tuple[int, np.ndarray]) -> None:
    capacity, counts = case
    assert sum(group.rows for group in pack(counts, capacity)) == best_fit_decreasing(counts, capacity)


def test_millions_of_documents_are_packed_by_their_lengths_alone() -> None:
    lengths = np.minimum(np.random.default_rng(0).lognormal(6.0, 1.1, 2_000_000).astype(int) + 1, 4097)
    counts = np.bincount(lengths, minlength=4098)
    rows = sum(group.rows for group in pack(counts, 4097))
    assert rows * 4097 < 1.001 * lengths.sum()
