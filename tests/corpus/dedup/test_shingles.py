from pathlib import Path

import numpy as np
import pytest
from corpus.brute_force import jaccard, shingles, texts
from hypothesis import given
from hypothesis import strategies as st

from mindformers_megatron.corpus.dedup.lsh import PAIR_ROW
from mindformers_megatron.corpus.dedup.shingle_store import ShingleStore, gather_store, open_store, write_store
from mindformers_megatron.corpus.dedup.shingles import Shingles, shingle, shingle_sets
from mindformers_megatron.corpus.dedup.verify import pair_similarity, verify_pairs
from mindformers_megatron.errors import DataError

several = st.lists(texts, max_size=8)
lengths = st.integers(1, 6)


def of(found: Shingles, document: int) -> list[int]:
    return found.values[found.offsets[document] : found.offsets[document + 1]].tolist()


def all_pairs(count: int) -> np.ndarray:
    return np.array([(left, right) for left in range(count) for right in range(count)], dtype=PAIR_ROW)


@given(several, lengths)
def test_shingles_are_the_ngrams_and_a_short_text_is_one(batch: list[str], n: int) -> None:
    found, sets = shingle(batch, n), shingle_sets(batch, n)
    for number, text in enumerate(batch):
        assert len(set(of(found, number))) == len(shingles(text, n))
        assert of(sets, number) == sorted(set(of(found, number)))


@given(several, lengths)
def test_similarity_is_that_of_the_sets_of_ngrams(batch: list[str], n: int) -> None:
    store = gather_store([(np.arange(len(batch)), shingle_sets(batch, n))])
    pairs = all_pairs(len(batch))
    sets = [shingles(text, n) for text in batch]
    expected = [jaccard(sets[left], sets[right]) for left, right in pairs]
    assert pair_similarity(pairs, store).tolist() == [np.float32(value) for value in expected]


@given(several, lengths, st.sampled_from([0.25, 0.5, 1.0]), st.integers(1, 5))
def test_verified_pairs_reach_the_threshold_and_keep_their_order(
    batch: list[str], n: int, threshold: float, at_once: int
) -> None:
    store = gather_store([(np.arange(len(batch)), shingle_sets(batch, n))])
    pairs = all_pairs(len(batch))
    found = np.concatenate([pairs[:0], *verify_pairs(pairs, store, threshold, at_once=at_once)])
    assert np.array_equal(found, pairs[pair_similarity(pairs, store) >= threshold])


def check_same(left: ShingleStore, right: ShingleStore, documents: np.ndarray) -> None:
    taken, again = left.take(documents), right.take(documents)
    assert np.array_equal(taken.offsets, again.offsets)
    assert np.array_equal(taken.values, again.values)


def test_a_store_on_disk_gives_what_one_in_memory_gives(tmp_path: Path) -> None:
    parts = [
        (np.array([70, 3, 9]), shingle_sets(["a b c d", "", "e f 天地玄黄"], 2)),
        (np.array([], dtype=np.int64), shingle_sets([], 2)),
        (np.array([5]), shingle_sets(["x y z"], 2)),
    ]
    written = write_store(tmp_path, parts)
    for documents in ([], [3], [9, 70, 9, 5, 3]):
        check_same(gather_store(parts), written, np.array(documents, dtype=np.int64))
        check_same(gather_store(parts), open_store(tmp_path), np.array(documents, dtype=np.int64))


def test_a_document_that_was_not_shingled_is_named() -> None:
    store = gather_store([(np.array([1, 4]), shingle_sets(["a", "b"], 1))])
    with pytest.raises(DataError, match="document 3 "):
        store.take(np.array([1, 3]))


@pytest.mark.parametrize("name", ["shingles.u32", "documents.i64", "sizes.i64"])
def test_a_damaged_store_is_refused(tmp_path: Path, name: str) -> None:
    write_store(tmp_path, [(np.array([1, 4]), shingle_sets(["a b", "c d"], 1))])
    damaged = tmp_path / name
    damaged.write_bytes(damaged.read_bytes()[:-8])
    with pytest.raises(DataError, match="do not fit together"):
        open_store(tmp_path)
    damaged.unlink()
    with pytest.raises(DataError, match=name):
        open_store(tmp_path)


def test_an_empty_store_is_a_store(tmp_path: Path) -> None:
    assert len(write_store(tmp_path, []).take(np.array([], dtype=np.int64))) == 0
