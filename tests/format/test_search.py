import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mindformers_megatron.format.search import search_sorted

NUMBERS = st.integers(-(2**40), 2**40) | st.integers(-3, 3)


@given(st.lists(NUMBERS, max_size=50), st.lists(NUMBERS, max_size=10))
@pytest.mark.parametrize("side", ["left", "right"])
def test_an_unaligned_array_is_searched_as_numpy_searches(side: str, elements: list[int], values: list[int]) -> None:
    aligned = np.array(sorted(elements), np.int64)
    unaligned = np.frombuffer(b"\0\0" + aligned.tobytes(), np.uint8)[2:].view(np.int64)
    wanted = np.array(values, np.int64)
    np.testing.assert_array_equal(search_sorted(unaligned, wanted, side), np.searchsorted(aligned, wanted, side))


def test_the_shape_of_the_values_is_kept() -> None:
    assert search_sorted(np.arange(5), np.array([[1, 2], [3, 9]])).tolist() == [[1, 2], [3, 5]]


@pytest.mark.parametrize("dtype", ["<i4", "<i8", ">i8", "<u2"])
def test_arrays_of_any_kind_are_searched(dtype: str) -> None:
    array = np.arange(0, 200, 2, dtype=dtype)
    for elements in (array, array[::3], array[:0]):
        wanted = np.array([-1, 0, 7, 8, 500])
        assert search_sorted(elements, wanted).tolist() == np.searchsorted(elements.astype(np.int64), wanted).tolist()
