from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mindformers_megatron.errors import ConfigError
from mindformers_megatron.sampling.blend import Blend
from mindformers_megatron.sampling.shares import MAX_TOTAL, check_weights, integer_parts, sample_weights

part_lists = st.lists(st.integers(0, 10**6), min_size=1, max_size=40).filter(any)


def blend_of(parts: list[int]) -> Blend:
    return Blend(np.array(parts, dtype=np.int64))


def by_samples(weights: list[float]) -> np.ndarray:
    return integer_parts(sample_weights(weights, [1] * len(weights), [1.0] * len(weights)))


@given(parts=part_lists, length=st.integers(1, 3000))
def test_each_corpus_gives_its_samples_in_order_without_a_gap(parts: list[int], length: int) -> None:
    corpus, cursor = blend_of(parts).locate(np.arange(length))
    for number in range(len(parts)):
        assert np.array_equal(cursor[corpus == number], np.arange(np.count_nonzero(corpus == number)))


@given(parts=part_lists, start=st.integers(0, 2**61), length=st.integers(1, 50))
def test_counts_agree_with_locations_at_any_position(parts: list[int], start: int, length: int) -> None:
    blend = blend_of(parts)
    corpus, cursor = blend.locate(np.arange(start, start + length))
    counts = blend.counts(start).copy()
    for number, rank in zip(corpus.tolist(), cursor.tolist(), strict=True):
        assert rank == counts[number]
        counts[number] += 1
    assert np.array_equal(counts, blend.counts(start + length))


@given(parts=part_lists, samples=st.lists(st.integers(0, 2**61), min_size=1, max_size=20))
def test_a_sample_is_found_from_its_corpus_and_cursor(parts: list[int], samples: list[int]) -> None:
    blend = blend_of(parts)
    corpus, cursor = blend.locate(np.array(samples))
    for sample, number, rank in zip(samples, corpus.tolist(), cursor.tolist(), strict=True):
        assert blend.samples_of(number, [rank]) == [sample]


@given(parts=part_lists, prefix=st.integers(0, 2**61))
def test_no_prefix_is_off_by_as_much_as_the_number_of_corpora(parts: list[int], prefix: int) -> None:
    counts = blend_of(parts).counts(prefix).tolist()
    assert sum(counts) == prefix
    for count, part in zip(counts, parts, strict=True):
        error = abs(count - Fraction(prefix * part, sum(parts)))
        assert error < max(len(parts), 1)
        # The bound of the docstring, for the depth that a tree of this many leaves has at most.
        assert error <= Fraction(len(parts), 2)


def test_thousands_of_corpora_are_off_by_a_few_samples_at_most() -> None:
    rng = np.random.default_rng(5)
    parts = by_samples((rng.random(2500) ** 8 + 1e-9).tolist())
    blend = Blend(parts)
    for prefix in (1, 100, 12_345, 10**6, 10**9 + 7):
        assert np.abs(blend.counts(prefix) - prefix * blend.shares).max() < 3


def test_a_weight_of_a_millionth_is_honoured() -> None:
    blend = Blend(by_samples([1e-6, 0.5, 0.499999]))
    assert blend.counts(10**6)[0] == 1
    assert blend.counts(10**9)[0] == 1000


def test_a_corpus_of_weight_zero_is_never_read() -> None:
    corpus, _ = blend_of([3, 0, 1]).locate(np.arange(1000))
    assert set(corpus.tolist()) == {0, 2}


@given(parts=part_lists)
def test_the_mix_repeats_after_as_many_samples_as_there_are_parts(parts: list[int]) -> None:
    assert np.array_equal(blend_of(parts).counts(sum(parts)), parts)


@given(st.lists(st.integers(1, 9999), min_size=1, max_size=20))
def test_decimal_weights_are_in_force_exactly(thousandths: list[int]) -> None:
    parts = by_samples([count / 1000 for count in thousandths])
    total = int(parts.sum())
    for count, part in zip(thousandths, parts.tolist(), strict=True):
        assert Fraction(part, total) == Fraction(count, sum(thousandths))


@given(st.lists(st.floats(0, 1e12, allow_subnormal=False), min_size=1, max_size=50).filter(any))
def test_any_weights_become_whole_parts_within_a_two_billionth(weights: list[float]) -> None:
    parts = by_samples(weights)
    assert 0 < parts.sum() <= MAX_TOTAL
    exact = [Fraction(str(weight)) for weight in weights]
    for weight, share, part in zip(exact, (parts / parts.sum()).tolist(), parts.tolist(), strict=True):
        assert abs(share - float(weight / sum(exact))) < (len(weights) + 1) * 2**-30
        assert bool(part) == bool(weight)


def test_weights_by_tokens_make_up_for_corpora_whose_samples_are_short() -> None:
    parts = integer_parts(sample_weights([0.5, 0.5], [1000, 1000], [100.0, 25.0], weight_by="tokens"))
    assert parts.tolist() == [1, 4]


def test_without_weights_corpora_are_mixed_by_their_tokens() -> None:
    parts = integer_parts(sample_weights(None, [700, 200, 100], [64.0, 64.0, 64.0]))
    assert parts.tolist() == [7, 2, 1]


def test_temperature_evens_weights_out() -> None:
    parts = integer_parts(sample_weights([0.81, 0.01], [1, 1], [1.0, 1.0], temperature=2.0))
    assert np.allclose(parts / parts.sum(), [0.9, 0.1])


@pytest.mark.parametrize("temperature", [0, -1, float("nan"), float("inf")])
def test_an_impossible_temperature_is_refused(temperature: float) -> None:
    with pytest.raises(ConfigError, match="temperature"):
        sample_weights([1.0], [1], [1.0], temperature=temperature)


@pytest.mark.parametrize(
    ("weights", "says"),
    [
        ([1.0], "1 entries for 2"),
        ([1.0, -0.1], "-0.1"),
        ([1.0, float("nan")], "nan"),
        ([0, 0], "all 0"),
        ([True, 1], "True"),
    ],
)
def test_weights_that_make_no_mix_are_refused(weights: list[float], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        check_weights(weights, ["wiki", "code"])
