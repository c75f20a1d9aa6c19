import numpy as np
import pytest
from corpus.brute_force import texts
from datasketch import MinHash, MinHashLSH
from hypothesis import given, settings
from hypothesis import strategies as st

from mindformers_megatron.corpus.dedup.lsh import Bands, band_keys, choose_bands
from mindformers_megatron.corpus.dedup.minhash import SCHEME, is_empty, sign, similarity
from mindformers_megatron.corpus.dedup.shingles import shingle
from mindformers_megatron.errors import ConfigError


def datasketch_signature(text: str, ngram: int, permutations: int, seed: int) -> np.ndarray:
    sketch = MinHash(permutations, seed=seed, scheme=SCHEME, hashfunc=int)
    sketch.update_batch(shingle([text], ngram).values.tolist())
    return sketch.hashvalues


@given(st.lists(texts, max_size=5), st.integers(1, 5), st.sampled_from([2, 16, 128]), st.integers(0, 2**32 - 1))
@settings(max_examples=30)
def test_signatures_are_those_of_datasketch_bit_for_bit(
    batch: list[str], ngram: int, permutations: int, seed: int
) -> None:
    signatures = sign(batch, ngram=ngram, permutations=permutations, seed=seed)
    assert signatures.dtype == np.uint32
    for text, signature in zip(batch, signatures, strict=True):
        assert np.array_equal(signature, datasketch_signature(text, ngram, permutations, seed))


def test_signatures_do_not_depend_on_how_texts_are_batched() -> None:
    long = [f"{number} " * 90_000 for number in range(5)] + ["short"]
    together = sign(long, ngram=3, permutations=8)
    assert np.array_equal(together, np.concatenate([sign([text], ngram=3, permutations=8) for text in long]))


def test_a_text_without_words_resembles_nothing() -> None:
    signatures = sign(["...", "", "a"], ngram=5, permutations=16)
    assert is_empty(signatures).tolist() == [True, True, False]


def test_agreement_estimates_similarity() -> None:
    left = " ".join(map(str, range(1000)))
    right = " ".join(map(str, range(200, 1200)))
    signatures = sign([left, right], ngram=1, permutations=1024)
    # J = 800 / 1200; four standard errors.
    assert abs(similarity(signatures[:1], signatures[1:])[0] - 2 / 3) < 4 * (2 / 9 / 1024) ** 0.5


@given(st.lists(texts, min_size=1, max_size=12), st.sampled_from([(4, 2), (2, 4), (16, 1), (1, 16)]))
@settings(max_examples=30)
def test_bands_agree_where_a_datasketch_index_finds(batch: list[str], shape: tuple[int, int]) -> None:
    bands = Bands(*shape)
    signatures = sign(batch, ngram=2, permutations=16)
    keys = band_keys(signatures, bands)
    if bands.count > 1:
        index = MinHashLSH(num_perm=16, params=shape)
        sketches = [MinHash(16, hashvalues=row, scheme=SCHEME) for row in signatures]
        for number, sketch in enumerate(sketches):
            index.insert(number, sketch)
        for number, sketch in enumerate(sketches):
            assert set(index.query(sketch)) == set(np.flatnonzero((keys == keys[number]).any(axis=1)))
    # A band equals no other band of any document.
    assert all(np.intersect1d(keys[:, a], keys[:, b]).size == 0 for a in range(bands.count) for b in range(a))


def test_bands_are_chosen_for_few_missed_pairs() -> None:
    bands = choose_bands(0.7, 128)
    assert bands == Bands(20, 6)
    assert bands.probability(0.7) > 0.9
    assert bands.probability(0.8) > 0.99
    assert bands.probability(0.3) < 0.02


@pytest.mark.parametrize(("threshold", "permutations"), [(0.0, 128), (1.5, 128), (0.7, 1), (1.0, 2)])
def test_impossible_bands_are_refused(threshold: float, permutations: int) -> None:
    with pytest.raises(ConfigError):
        choose_bands(threshold, permutations)
