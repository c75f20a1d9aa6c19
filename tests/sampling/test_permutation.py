import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mindformers_megatron.sampling.keys import below, derive_key, words_at
from mindformers_megatron.sampling.permutation import FEW, permute, unpermute

keys = st.integers(0, 2**64 - 1)


def permutation(size: int, key: int) -> np.ndarray:
    return permute(np.arange(size), size, np.full(size, key, dtype=np.uint64))


@given(size=st.integers(1, 20_000), key=keys)
def test_every_element_comes_exactly_once(size: int, key: int) -> None:
    assert np.array_equal(np.sort(permutation(size, key)), np.arange(size))


@given(st.lists(st.tuples(st.integers(1, 2**61), keys), min_size=1, max_size=20), st.integers(0, 2**61))
def test_every_position_can_be_found_from_its_element(under: list[tuple[int, int]], place: int) -> None:
    sizes = np.array([size for size, _ in under])
    keys_of = np.array([key for _, key in under], dtype=np.uint64)
    positions = place % sizes
    assert np.array_equal(unpermute(permute(positions, sizes, keys_of), sizes, keys_of), positions)


@pytest.mark.parametrize("size", [1, 2, 100, FEW, FEW + 1, 1000, 65_537])
def test_the_inverse_holds_for_whole_permutations(size: int) -> None:
    keys_of = np.full(size, 99, dtype=np.uint64)
    assert np.array_equal(unpermute(permutation(size, 99), size, keys_of), np.arange(size))


@pytest.mark.parametrize("size", [FEW, FEW + 1, 127, 128, 129, 4096, 2**16, 2**16 + 1, 3_000_017])
def test_every_element_comes_exactly_once_at_the_edges_of_the_method(size: int) -> None:
    assert np.array_equal(np.sort(permutation(size, 99)), np.arange(size))


@given(size=st.integers(2**40, 2**61), key=keys, data=st.data())
def test_distinct_positions_of_huge_permutations_stay_distinct_and_inside(
    size: int, key: int, data: st.DataObject
) -> None:
    positions = np.array(data.draw(st.lists(st.integers(0, size - 1), min_size=1, max_size=50, unique=True)))
    elements = permute(positions, size, np.full(positions.size, key, dtype=np.uint64))
    assert elements.min() >= 0
    assert elements.max() < size
    assert np.unique(elements).size == positions.size


@given(size=st.integers(1, 10**9), key=keys, data=st.data())
def test_an_element_does_not_depend_on_what_else_is_asked(size: int, key: int, data: st.DataObject) -> None:
    positions = np.array(data.draw(st.lists(st.integers(0, size - 1), min_size=1, max_size=20)))
    together = permute(positions, size, np.full(positions.size, key, dtype=np.uint64))
    alone = [permute(positions[i : i + 1], size, np.array([key], dtype=np.uint64))[0] for i in range(positions.size)]
    assert together.tolist() == alone


@given(st.lists(st.tuples(st.integers(1, 10**6), keys), min_size=1, max_size=20), st.integers(0, 10**6))
def test_positions_under_several_keys_and_sizes_go_in_one_call(under: list[tuple[int, int]], place: int) -> None:
    sizes = np.array([size for size, _ in under])
    keys_of = np.array([key for _, key in under], dtype=np.uint64)
    positions = place % sizes
    together = permute(positions, sizes, keys_of)
    assert together.tolist() == [
        permute(positions[i : i + 1], int(sizes[i]), keys_of[i : i + 1])[0] for i in range(sizes.size)
    ]


@pytest.mark.parametrize("size", [2, 3, 10, 1000, 5000, 100_000])
def test_elements_move_far_and_keys_give_unrelated_orders(size: int) -> None:
    orders = [permutation(size, key) for key in range(40)]
    # Chi-square of the first position's element over ten bins, at a level that no fair permutation ever reaches.
    bins = min(size, 10)
    firsts = np.concatenate([order[: max(1, size // 20)] for order in orders])
    observed = np.bincount(firsts * bins // size, minlength=bins)
    expected = np.bincount(np.arange(size) * bins // size, minlength=bins) / size * firsts.size
    assert ((observed - expected) ** 2 / expected).sum() < 60
    if size >= 1000:
        agreement = np.mean(orders[0] == orders[1])
        assert agreement < 10 / size + 0.01
        assert abs(np.corrcoef(np.arange(size), orders[0])[0, 1]) < 0.2


def test_keys_tell_parts_apart_by_type_order_and_cut() -> None:
    different = [(1, "2"), ("1", 2), ("12",), ("1", "2"), ("2", "1"), (1, 2), ("", "12")]
    assert len({derive_key(*parts) for parts in different}) == len(different)


def test_the_numbers_are_the_same_for_ever() -> None:
    """A run must resume under a later version: these values may never change."""
    assert derive_key("stream", 42, "wiki", "order") == 6580248922002764737
    assert words_at(np.array(7, dtype=np.uint64), np.arange(3, dtype=np.uint64)).tolist() == [
        236966933211079599,
        1772951811831149054,
        14652037524072870575,
    ]
    assert permutation(10, 3).tolist() == [4, 8, 1, 5, 2, 3, 7, 6, 0, 9]
    assert permute(np.array([0, 1, 2]), 10**9, np.full(3, 3, dtype=np.uint64)).tolist() == [
        129795566,
        468013238,
        90808524,
    ]


@given(bound=st.integers(1, 2**32), words=st.lists(keys, min_size=1, max_size=20))
def test_drawn_numbers_stay_below_their_bound(bound: int, words: list[int]) -> None:
    drawn = below(np.array(words, dtype=np.uint64), np.array(bound, dtype=np.uint64))
    assert drawn.min() >= 0
    assert drawn.max() < bound
