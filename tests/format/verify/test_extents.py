"""Of contradicting lengths and pointers, those are blamed that are wrong."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mindformers_megatron.format.verify.extents import Contradictions, Explanation, contradictions, explain

WIDTH = 2


def sound(count: int = 200, seed: int = 0) -> tuple[np.ndarray, np.ndarray, int]:
    lengths = np.random.default_rng(seed).integers(1, 50, count).astype(np.int32)
    ends = np.cumsum(lengths, dtype=np.int64) * WIDTH
    return lengths, ends - lengths * WIDTH, int(ends[-1])


def explained(lengths: np.ndarray, pointers: np.ndarray, size: int) -> list[tuple[str, int, int]]:
    found = contradictions(lengths, pointers, size, 0, WIDTH)
    return [(each.kind, each.begin, each.end) for each in explain(found, lengths.size, WIDTH)]


def test_nothing_is_wrong_with_a_sound_index() -> None:
    assert explained(*sound()) == []


@pytest.mark.parametrize("place", [0, 1, 100, 198])
@pytest.mark.parametrize("length", [0, 1000, -3, 2**31 - 1])
def test_a_wrong_length_is_blamed_alone(place: int, length: int) -> None:
    lengths, pointers, size = sound()
    right = lengths[place]
    lengths[place] = length
    found = contradictions(lengths, pointers, size, 0, WIDTH)
    (each,) = explain(found, lengths.size, WIDTH)
    assert each == Explanation("length", place, place + 1, pointers[place], pointers[place] + right * WIDTH)


@pytest.mark.parametrize("place", [0, 1, 100, 199])
@pytest.mark.parametrize("pointer", [1, 2**40, -2, 2**63 - 1, -(2**63)])
def test_a_wrong_pointer_is_blamed_alone(place: int, pointer: int) -> None:
    lengths, pointers, size = sound()
    right = int(pointers[place])
    pointers[place] = pointer
    (each,) = explain(contradictions(lengths, pointers, size, 0, WIDTH), lengths.size, WIDTH)
    assert (each.kind, each.begin, each.end, each.start) == ("pointer", place, place + 1, right)


@pytest.mark.parametrize("value", ["zero", "random"])
def test_a_block_of_wrong_pointers_is_blamed_whole(value: str) -> None:
    lengths, pointers, size = sound(2000)
    random = np.random.default_rng(1).integers(-(2**63), 2**63 - 1, 512)
    pointers[700:1212] = 0 if value == "zero" else random
    assert explained(lengths, pointers, size) == [("pointer", 700, 1212)]


@pytest.mark.parametrize("value", ["zero", "random"])
def test_a_block_of_wrong_lengths_is_blamed_whole(value: str) -> None:
    lengths, pointers, size = sound(2000)
    random = np.random.default_rng(1).integers(-(2**31), 2**31 - 1, 512)
    lengths[700:1212] = 0 if value == "zero" else random
    assert explained(lengths, pointers, size) == [("unclear", 700, 1212)]


def test_pointers_that_overflowed_are_blamed_and_not_the_lengths() -> None:
    lengths, pointers, size = sound()
    pointers[120:] -= 2**32
    assert explained(lengths, pointers, size) == [("pointer", 120, 200)]
    pointers[150:] -= 2**32
    assert explained(lengths, pointers, size) == [("pointer", 120, 200)]


def test_two_lengths_that_changed_places_are_blamed_and_not_what_is_between() -> None:
    lengths, pointers, size = sound()
    lengths[[30, 90]] = lengths[[90, 30]]
    assert explained(lengths, pointers, size) == [("length", 30, 31), ("length", 90, 91)]


def test_damage_in_several_places_is_told_apart() -> None:
    lengths, pointers, size = sound()
    lengths[20] += 7
    pointers[50] += 8
    pointers[100] = 0
    lengths[150] -= 1
    assert explained(lengths, pointers, size - 6) == [
        ("length", 20, 21),
        ("pointer", 50, 51),
        ("pointer", 100, 101),
        ("length", 150, 151),
        ("size", 199, 200),
    ]


@pytest.mark.parametrize(("more", "doubtful"), [(2, 1), (1000, 1), (1, 0), (-1, 0), (-2, 1), (-1000, 0)])
def test_a_bin_of_another_size_leaves_doubt_about_the_last_length_only_where_it_could_be_right(
    more: int, doubtful: int
) -> None:
    lengths, pointers, size = sound()
    assert explained(lengths, pointers, size + more) == [("size", 200 - doubtful, 200)]


def test_bytes_before_the_first_sequence_are_no_damage_of_a_sequence() -> None:
    lengths, pointers, size = sound()
    assert explained(lengths, pointers + 100, size + 100) == [("gap", 0, 0)]


def test_where_several_explanations_are_as_good_all_that_may_be_wrong_is_named() -> None:
    lengths, pointers, size = sound()
    pointers[50:52] += 8
    assert explained(lengths, pointers, size) == [("unclear", 49, 52)]


@given(st.data())
def test_whatever_happens_to_an_index_the_sequences_not_blamed_lie_where_they_lay(data: st.DataObject) -> None:
    lengths, pointers, size = sound(60, data.draw(st.integers(0, 9)))
    damaged, wrong = (lengths.copy(), pointers.copy()), set()
    # Apart from each other: what is next to each other may explain each other.
    for place in data.draw(st.lists(st.integers(0, 14), max_size=5, unique=True)):
        at = 4 * place + 1
        which = data.draw(st.integers(0, 1))
        value = data.draw(st.integers(-(2**31), 2**31 - 1))
        damaged[which][at] = value
        if value != (lengths, pointers)[which][at]:
            wrong.add(at)
    found = contradictions(*damaged, size, 0, WIDTH)
    blamed = {place for each in explain(found, 60, WIDTH) for place in range(each.begin, each.end)}
    for place in set(range(60)) - blamed:
        assert damaged[0][place] == lengths[place]
        assert damaged[1][place] == pointers[place]
    assert wrong <= blamed


def test_stretches_looked_at_apart_say_the_same() -> None:
    lengths, pointers, size = sound()
    lengths[99] += 1
    pointers[100] = 3
    whole = contradictions(lengths, pointers, size, 0, WIDTH)
    parts = [
        contradictions(lengths[a:b], pointers[a:b], size if b == 200 else pointers[b], a, WIDTH)
        for a, b in ((0, 100), (100, 200))
    ]
    joined = Contradictions.joined(parts)
    for name in Contradictions.__dataclass_fields__:
        np.testing.assert_array_equal(getattr(joined, name), getattr(whole, name))
