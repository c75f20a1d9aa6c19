import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mindformers_megatron.corpus.dedup.clusters import Clusters, find_clusters
from mindformers_megatron.corpus.dedup.lsh import PAIR_ROW
from mindformers_megatron.corpus.dedup.spill import Bound
from mindformers_megatron.corpus.split_table import DOCUMENT_ROW, read_split_table, write_split_table
from mindformers_megatron.corpus.splits import SplitOptions
from mindformers_megatron.errors import ConfigError

sizes = st.sampled_from(
    [{"validation": 0.1}, {"validation": 0.25, "test": 0.3}, {"test": 3}, {"a": 2, "b": 0.2, "c": 1}]
)


def clusters_of(pairs: list[tuple[int, int]], documents: int) -> Clusters:
    return find_clusters([np.array(pairs, dtype=PAIR_ROW)], np.arange(documents))


def assign_parts(
    keys: np.ndarray,
    sources: np.ndarray,
    options: SplitOptions,
    clusters: Clusters | None = None,
    arrays: int = 3,
    bound: Bound | None = None,
) -> np.ndarray:
    """The part of each document, looked up in the table that is written of all."""
    rows = np.zeros(keys.size, dtype=DOCUMENT_ROW)
    rows["key"], rows["source"], rows["record"] = keys, sources, keys
    if clusters is not None:
        for first in np.unique(clusters.firsts):
            members = clusters.documents[clusters.firsts == first]
            rows["record"][members] = keys[members].min()
    kinds = int(sources.max(initial=0)) + 1
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        cut = np.array_split(rows, arrays)
        counts = write_split_table(folder, lambda: iter(cut), options, sources=kinds, bound=bound or Bound())
        parts = read_split_table(folder).parts_of(rows["record"]).astype(np.int64)
    assert counts.tolist() == counted(parts, options)
    return parts


def counted(parts: np.ndarray, options: SplitOptions) -> list[int]:
    return np.bincount(parts, minlength=len(options.parts)).tolist()


@given(st.integers(10, 200), st.integers(1, 5), sizes, st.integers(0, 2**70))
def test_without_duplicates_every_part_gets_what_it_asks_for_of_every_source(documents, kinds, asked, seed) -> None:
    random = np.random.default_rng(documents)
    keys, sources = random.permutation(documents).astype(np.uint64), random.integers(0, kinds, documents)
    options = SplitOptions(sizes=asked, seed=seed)
    parts = assign_parts(keys, sources, options)
    expected = [round(size * documents) if size < 1 else size for size in asked.values()]
    assert counted(parts, options)[1:] == expected
    # Every source gives its share, to a document for each part taken before.
    for part, count in enumerate(expected, 1):
        for source in range(kinds):
            share = np.count_nonzero(sources == source) * count / documents
            assert abs(np.count_nonzero((parts == part) & (sources == source)) - share) < 1 + part


@given(st.data(), sizes)
def test_no_cluster_and_no_content_is_in_two_parts(data, asked) -> None:
    documents = data.draw(st.integers(10, 60))
    keys = np.array(data.draw(st.lists(st.integers(0, 40), min_size=documents, max_size=documents)), dtype=np.uint64)
    number = st.integers(0, documents - 1)
    pairs = data.draw(st.lists(st.tuples(number, number), max_size=15))
    clusters = clusters_of(pairs, documents)
    options = SplitOptions(sizes=asked)
    parts = assign_parts(keys, np.arange(documents) % 3, options, clusters=clusters)
    for left, right in pairs:
        assert parts[left] == parts[right]
    for key in set(keys.tolist()):
        assert len(set(parts[keys == key].tolist())) == 1
    expected = [round(size * documents) if size < 1 else size for size in asked.values()]
    assert all(count <= most for count, most in zip(counted(parts, options)[1:], expected, strict=True))


@given(st.randoms(use_true_random=False), sizes)
def test_the_order_of_documents_changes_nothing(random, asked) -> None:
    documents = 80
    keys = np.array([random.randrange(60) for _ in range(documents)], dtype=np.uint64)
    sources = np.array([random.randrange(3) for _ in range(documents)])
    pairs = [(random.randrange(documents), random.randrange(documents)) for _ in range(10)]
    options = SplitOptions(sizes=asked)
    parts = assign_parts(keys, sources, options, clusters=clusters_of(pairs, documents))
    order = random.sample(range(documents), documents)
    place = np.argsort(order)
    moved = [(int(place[left]), int(place[right])) for left, right in pairs]
    again = assign_parts(keys[order], sources[order], options, clusters=clusters_of(moved, documents))
    assert np.array_equal(again, parts[order])


def test_neither_memory_nor_the_cut_into_arrays_changes_anything() -> None:
    random = np.random.default_rng(5)
    documents = 40_000
    keys = random.integers(0, 2**64, documents, dtype=np.uint64)[random.integers(0, documents, documents)]
    sources = random.integers(0, 4, documents)
    pairs = random.integers(0, documents, (200, 2)).tolist()
    given = {"clusters": clusters_of([tuple(pair) for pair in pairs], documents)}
    options = SplitOptions(sizes={"validation": 0.1, "test": 0.2, "rest": 1000})
    parts = assign_parts(keys, sources, options, **given)
    assert np.array_equal(
        parts, assign_parts(keys, sources, options, arrays=50, bound=Bound(memory_bytes=1 << 16), **given)
    )


def test_large_clusters_leave_room_to_single_documents() -> None:
    documents = 1000
    pairs = [(0, other) for other in range(1, 500)]
    options = SplitOptions(sizes={"validation": 50, "test": 400})
    keys = np.random.default_rng(0).permutation(documents).astype(np.uint64)
    parts = assign_parts(keys, np.zeros(documents, dtype=np.int64), options, clusters=clusters_of(pairs, documents))
    assert counted(parts, options) == [550, 50, 400]
    assert not parts[:500].any()


def test_seeds_draw_different_documents() -> None:
    keys = np.random.default_rng(0).integers(0, 2**64, 1000, dtype=np.uint64)
    drawn = [
        assign_parts(keys, np.zeros(1000, dtype=np.int64), SplitOptions(sizes={"validation": 100}, seed=seed))
        for seed in range(20)
    ]
    assert all(part.sum() == 100 for part in drawn)
    overlap = np.mean([np.sum(drawn[0] & other) for other in drawn[1:]])
    assert 3 < overlap < 20


def test_an_empty_corpus_can_be_split_by_shares() -> None:
    nothing = np.zeros(0, dtype=np.int64)
    assert assign_parts(nothing.astype(np.uint64), nothing, SplitOptions()).size == 0


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"train": 0.5}, "train"),
        ({"": 0.5}, "cannot be sized"),
        ({"test": 0}, "test is 0"),
        ({"test": -0.1}, "test is"),
        ({"test": 2.5}, "2.5"),
        ({"validation": 0.6, "test": 0.4}, "add up to 1"),
    ],
)
def test_impossible_sizes_are_refused(asked, message) -> None:
    with pytest.raises(ConfigError, match=message):
        SplitOptions(sizes=asked)


def test_more_documents_than_there_are_are_refused() -> None:
    with pytest.raises(ConfigError, match="test asks for 7 documents; there are 6 left"):
        assign_parts(
            np.arange(10, dtype=np.uint64),
            np.zeros(10, dtype=np.int64),
            SplitOptions(sizes={"validation": 4, "test": 7}),
        )
