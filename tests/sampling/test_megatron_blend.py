import logging
import pickle
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from megatron_reference import reference_mix

from mindformers_megatron.errors import ConfigError
from mindformers_megatron.sampling import megatron_blend
from mindformers_megatron.sampling.megatron_blend import MegatronBlend, blend_sizes

PLENTY = 10**9

# Round numbers give ties in float64, others none; corpora of tiny weight are taken a few times in all.
weights_of_a_blend = st.one_of(
    st.lists(st.integers(1, 10), min_size=1, max_size=12),
    st.lists(st.floats(1e-6, 1e3), min_size=1, max_size=12),
    st.lists(st.sampled_from([0.1, 0.2, 0.25, 0.3, 0.5, 1e-3, 1e-5]), min_size=1, max_size=40),
)


def normalized(weights: list[float], times: int) -> list[float]:
    values = np.array(weights, dtype=np.float64)
    for _ in range(times):
        values = values / np.sum(values)
    return values.tolist()


def mixed(blend: MegatronBlend) -> tuple[list[int], list[int]]:
    assert blend.dataset_index.dtype == np.int16
    assert blend.dataset_sample_index.dtype == np.int64
    assert np.array_equal(np.bincount(blend.dataset_index, minlength=blend.counts.size), blend.counts)
    return blend.dataset_index.tolist(), blend.dataset_sample_index.tolist()


@given(weights=weights_of_a_blend, num_samples=st.integers(1, 600))
def test_a_weighted_blend_takes_the_corpus_that_lags_most(weights: list[float], num_samples: int) -> None:
    used, built = blend_sizes(weights, num_samples)
    blend = MegatronBlend.of_weights(weights, used, [PLENTY] * len(weights))
    assert len(blend) == sum(used) >= num_samples
    assert all(most >= size for most, size in zip(built, used, strict=True))
    assert mixed(blend) == reference_mix(normalized(weights, 2), sum(used))


@given(sizes=st.lists(st.one_of(st.integers(1, 5), st.integers(1, 200)), min_size=1, max_size=12))
def test_a_blend_without_weights_takes_every_sample_once(sizes: list[int]) -> None:
    blend = MegatronBlend.of_sizes(sizes)
    assert blend.counts.tolist() == sizes
    assert mixed(blend) == reference_mix(normalized(sizes, 1), sum(sizes), limits=sizes)


@given(sizes=st.lists(st.integers(1, 200), min_size=1, max_size=12), num_samples=st.integers(1, 1000))
def test_a_blend_without_weights_ends_at_the_size_asked_or_with_the_corpora(sizes: list[int], num_samples: int) -> None:
    size = min(num_samples, sum(sizes))
    assert mixed(MegatronBlend.of_sizes(sizes, num_samples)) == reference_mix(normalized(sizes, 1), size)


@pytest.mark.parametrize("count", [2, 3, 40, 700])
def test_compiled_and_interpreted_steps_are_the_same(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("numba")
    weights = (10.0 ** -np.random.default_rng(count).uniform(0, 6, count)).tolist()
    used, _ = blend_sizes(weights, 5000)
    interpreted = MegatronBlend.of_weights(weights, used, [PLENTY] * count)
    exhausted = MegatronBlend.of_sizes(used)
    monkeypatch.setattr(megatron_blend, "_WORTH_COMPILING", 0)
    assert mixed(MegatronBlend.of_weights(weights, used, [PLENTY] * count)) == mixed(interpreted)
    assert mixed(MegatronBlend.of_sizes(used)) == mixed(exhausted)


def test_without_numba_a_long_blend_says_how_long_it_takes(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(megatron_blend, "_compiled_steps", lambda: None)
    monkeypatch.setattr(megatron_blend, "_WORTH_COMPILING", 100)
    with caplog.at_level(logging.WARNING):
        MegatronBlend.of_sizes([300, 700])
    assert "mixing 1000 samples of 2 corpora" in caplog.text


def test_the_sizes_are_rounded_up_one_by_one() -> None:
    # The weights add up to a little less than 1, so that each product is a little more than a whole number.
    assert blend_sizes([0.4, 0.3, 0.2, 0.1], 500) == ([201, 151, 101, 51], [203, 152, 102, 52])
    used, built = blend_sizes([1, 1, 1], 1)
    assert used == [1, 1, 1]
    assert built == [2, 2, 2]
    assert blend_sizes([1, 1], 400, surplus=0) == ([200, 200], [200, 200])


def test_samples_are_located_by_corpus_and_place_in_it() -> None:
    blend = MegatronBlend.of_sizes([1, 2])
    corpus, cursor = blend.locate(np.array([2, 0, 1]))
    assert corpus.dtype == cursor.dtype == np.int64
    assert corpus.tolist() == [blend.dataset_index[place] for place in (2, 0, 1)]
    assert sorted(zip(corpus.tolist(), cursor.tolist(), strict=True)) == [(0, 0), (1, 0), (1, 1)]
    with pytest.raises(IndexError, match="the blend has 3"):
        blend.locate(np.array([3]))


def test_what_megatron_asserts_on_is_refused_in_one_line() -> None:
    cases = [
        (lambda: blend_sizes([0.5, 0.0], 10), "corpus 1 of the blend has a weight"),
        (lambda: blend_sizes([0.5, -1.0], 10), "of -1.0"),
        (lambda: blend_sizes([float("nan")], 10), "of nan"),
        (lambda: blend_sizes([], 10), "0 corpora"),
        (lambda: blend_sizes([1.0] * 32767, 10), "32767 corpora"),
        (lambda: blend_sizes([1.0], 0), "num_samples 0"),
        (lambda: MegatronBlend.of_sizes([3, 0]), "corpus 1 of the blend"),
        (lambda: MegatronBlend.of_weights([1, 1], [5, 5], [5, 4]), "takes 5 from corpus 1, which has 4; raise surplus"),
    ]
    for call, says in cases:
        with pytest.raises(ConfigError, match=says) as caught:
            call()
        assert "\n" not in str(caught.value)


def test_the_cache_gives_the_same_mix_and_keeps_apart_what_differs(tmp_path: Path) -> None:
    plain = MegatronBlend.of_sizes([30, 70])
    for _ in range(2):
        cached = MegatronBlend.of_sizes([30, 70], cache_dir=tmp_path)
        assert cached.arrays.path is not None
        assert mixed(cached) == mixed(plain)
    assert mixed(pickle.loads(pickle.dumps(cached))) == mixed(plain)
    assert len(list(tmp_path.iterdir())) == 1
    MegatronBlend.of_sizes([30, 70], 100, cache_dir=tmp_path)
    MegatronBlend.of_sizes([31, 70], cache_dir=tmp_path)
    assert len(list(tmp_path.iterdir())) == 3
