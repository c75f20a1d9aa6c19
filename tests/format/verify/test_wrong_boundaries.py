"""Of document indices that do not ascend, those are blamed that are out of order."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mindformers_megatron.format.verify.boundaries import suspects, wrong_boundaries

COUNT = 100_001
RIGHT = np.arange(COUNT)


def blamed(documents: np.ndarray, num_sequences: int | None = None) -> list[int]:
    last = documents.size - 1 if num_sequences is None else num_sequences
    places = suspects(documents, 0, documents.size, last)
    return wrong_boundaries(places, lambda begin, end: documents[begin:end], documents.size, last).tolist()


def test_nothing_is_wrong_with_sound_ones() -> None:
    assert blamed(RIGHT) == []


@pytest.mark.parametrize(
    ("place", "value"),
    [(500, 700), (500, 300), (500, 0), (0, 5), (COUNT - 1, 5), (COUNT - 1, 2**40), (7, -4), (7, 2**62), (1, 99_999)],
)
def test_one_that_is_out_of_order_is_blamed_alone(place: int, value: int) -> None:
    documents = RIGHT.copy()
    documents[place] = value
    assert blamed(documents) == [place]


@pytest.mark.parametrize("kind", ["zero", "random", "random within"])
def test_a_block_out_of_order_is_blamed_whole(kind: str) -> None:
    documents = RIGHT.copy()
    rng = np.random.default_rng(3)
    low, high = (-(2**63), 2**63 - 1) if kind == "random" else (0, 5000)
    documents[50_000:50_512] = 0 if kind == "zero" else rng.integers(low, high, 512)
    assert blamed(documents) == list(range(50_000, 50_512))


def test_empty_documents_are_in_order() -> None:
    documents = np.repeat(np.arange(50), 3)
    assert blamed(documents, 49) == []


@given(st.lists(st.integers(-3, 30), min_size=1, max_size=20))
def test_what_is_left_ascends_whatever_there_was(values: list[int]) -> None:
    documents = np.array(values, np.int64)
    left = np.delete(documents, blamed(documents, 27))
    assert (np.diff(left) >= 0).all()
    assert ((left >= 0) & (left <= 27)).all()


def test_stretches_looked_at_apart_say_the_same() -> None:
    documents = np.array([0, 4, 2, 9, 5, 5, 3, 8])
    whole = suspects(documents, 0, 8, 8)
    parts = [suspects(documents[:5], 0, 8, 8), suspects(documents[4:], 4, 8, 8)]
    np.testing.assert_array_equal(np.concatenate([parts[0][parts[0] < 4], parts[1]]), whole)
