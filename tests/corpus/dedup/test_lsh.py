import itertools
from collections import defaultdict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mindformers_megatron.corpus.dedup.lsh import BAND_ROW, Bands, candidates_footprint, find_candidates
from mindformers_megatron.corpus.dedup.spill import Bound

BANDS = Bands(3, 1)
SMALL = Bound(memory_bytes=1 << 16)

# Few different keys at both ends and in the middle of their range.
keys = st.integers(0, 9).map(lambda key: key * (2**64 // 9) % 2**64)
corpora = st.lists(st.tuples(keys, keys, keys), max_size=40)


def rows_of(corpus: list[tuple[int, int, int]], order: list[int]) -> np.ndarray:
    return np.array([(key, document) for document in order for key in corpus[document]], dtype=BAND_ROW)


def brute_pairs(corpus: list[tuple[int, int, int]], bucket: int) -> list[tuple[int, int]]:
    members = defaultdict(set)
    for document, bands in enumerate(corpus):
        for key in bands:
            members[key].add(document)
    pairs = set()
    for found in members.values():
        ordered = sorted(found)
        for left, right in itertools.combinations(range(len(ordered)), 2):
            if right - left <= bucket or left == 0:
                pairs.add((ordered[left], ordered[right]))
    return sorted(pairs)


@given(corpora, st.sampled_from([1, 2, 100]), st.randoms(use_true_random=False))
def test_pairs_share_a_key_in_whatever_order_documents_come(corpus, bucket, random) -> None:
    order = random.sample(range(len(corpus)), len(corpus))
    cut = random.randint(0, len(corpus))
    shards = [rows_of(corpus, order[:cut]), rows_of(corpus, order[cut:])]
    found = find_candidates(shards, BANDS, documents=len(corpus), bound=Bound(), bucket=bucket)
    assert [pair for pairs in found for pair in pairs.tolist()] == brute_pairs(corpus, bucket)


@given(corpora, st.sampled_from([1, 100]))
def test_a_shard_that_came_twice_changes_nothing(corpus, bucket) -> None:
    shards = [rows_of(corpus, list(range(len(corpus))))] * 2
    found = find_candidates(shards, BANDS, documents=len(corpus), bound=Bound(), bucket=bucket)
    assert [pair for pairs in found for pair in pairs.tolist()] == brute_pairs(corpus, bucket)


@pytest.mark.parametrize("shards", [1, 7, 50])
def test_pairs_found_by_way_of_files_are_those_found_in_memory(shards: int, tmp_path) -> None:
    random = np.random.default_rng(1)
    documents = 20_000
    rows = np.empty((documents, 3), dtype=BAND_ROW)
    rows["key"] = random.integers(0, 2**64, 15_000, dtype=np.uint64)[random.integers(0, 15_000, (documents, 3))]
    rows["document"] = np.arange(documents)[:, None]
    in_memory = np.concatenate([*find_candidates([rows.ravel()], BANDS, documents=documents, bound=Bound())])
    small = Bound(memory_bytes=1 << 16, folder=tmp_path)
    assert candidates_footprint(documents, BANDS, small).ranges > 8
    parts = [part.ravel() for part in np.array_split(rows, shards)]
    by_files = find_candidates(parts[::-1], BANDS, documents=documents, bound=small)
    assert np.array_equal(np.concatenate([*by_files]), in_memory)
    assert in_memory.size > documents
    assert not any(tmp_path.iterdir())
