import itertools
from pathlib import Path

import numpy as np
import pytest
from corpus.brute_force import components, jaccard, shingles, texts
from corpus.dedup.planted import chinese, english, plant
from hypothesis import given, settings
from hypothesis import strategies as st

from mindformers_megatron.corpus.dedup.lsh import Bands, find_candidates
from mindformers_megatron.corpus.dedup.near import (
    NearDuplicates,
    NearOptions,
    find_near_duplicates,
    paired_documents,
    resolve,
    shard_rows,
)
from mindformers_megatron.corpus.dedup.shingle_store import write_store
from mindformers_megatron.corpus.dedup.shingles import shingle_sets
from mindformers_megatron.corpus.dedup.spill import Bound
from mindformers_megatron.corpus.dedup.verify import verify_pairs
from mindformers_megatron.errors import ConfigError


def rows_of(found: NearDuplicates) -> list[tuple[int, int, float]]:
    dropped = found.duplicates
    return [*zip(dropped.documents.tolist(), dropped.kept.tolist(), dropped.similarity.tolist(), strict=True)]


def verified_pairs(texts_: list[str], options: NearOptions, folder: Path) -> set[tuple[int, int]]:
    rows = shard_rows(texts_, options, first_document=0)
    pairs = np.concatenate([*find_candidates([rows], options.chosen_bands(), documents=len(texts_), bound=Bound())])
    documents = paired_documents(pairs, len(texts_))
    store = write_store(folder, [(documents, shingle_sets([texts_[n] for n in documents], options.ngram))])
    return {pair for part in verify_pairs(pairs, store, options.threshold) for pair in part.tolist()}


@pytest.mark.parametrize(
    ("make", "size", "joiner", "documents", "edits"),
    [(english, 320, " ", 10_000, 1000), (chinese, 800, "", 2000, 400)],
    ids=["english", "chinese"],
)
def test_planted_edits_are_found_and_nothing_else(make, size, joiner, documents, edits, tmp_path: Path) -> None:
    planted = plant(7, documents, edits, make, size, joiner)
    found = verified_pairs(planted.texts, NearOptions(), tmp_path)
    for least, recall in ((0.7, 0.9), (0.8, 0.98)):
        similar = {pair for pair, value in planted.similar.items() if value >= least}
        assert len(similar) > edits / 4
        assert len(similar & found) >= recall * len(similar)
    # Compared exactly, a pair below the threshold is not found at all; pairs outside families would be below it.
    assert found <= {pair for pair, value in planted.similar.items() if value >= 0.7}


@given(st.lists(texts, max_size=12), st.sampled_from([0.35, 0.5, 0.8]), st.data())
@settings(max_examples=50)
def test_all_that_is_dropped_is_what_comparing_all_pairs_would_drop(batch, threshold, data) -> None:
    # Bands of one place: a pair half as similar as the threshold is missed once in a million.
    options = NearOptions(threshold=threshold, ngram=2, bands=Bands(128, 1))
    cut = data.draw(st.integers(0, len(batch)))
    found = find_near_duplicates([batch[:cut], batch[cut:]], options, bound=Bound(memory_bytes=1 << 16))
    sets = [shingles(text, 2) for text in batch]
    similar = {
        (left, right): value
        for left, right in itertools.combinations(range(len(batch)), 2)
        if (value := jaccard(sets[left], sets[right])) >= threshold
    }
    first = components([*similar])
    assert dict(zip(found.clusters.documents.tolist(), found.clusters.firsts.tolist(), strict=True)) == first
    expected = [
        (document, kept, float(np.float32(jaccard(sets[document], sets[kept]))))
        for document, kept in sorted(first.items())
        if kept != document
    ]
    assert rows_of(found) == expected


def test_the_cut_into_shards_and_the_memory_change_nothing(tmp_path: Path) -> None:
    planted = plant(3, 2000, 1000, english, 60, " ").texts
    options = NearOptions(ngram=3)
    whole = rows_of(find_near_duplicates([planted], options))
    assert len(whole) > 50
    for shards, memory in ((2, 1 << 30), (13, 1 << 16), (1, 1 << 17)):
        edges = [len(planted) * n // shards for n in range(shards + 1)]
        cut = [planted[first:last] for first, last in itertools.pairwise(edges)]
        bound = Bound(memory_bytes=memory, folder=tmp_path)
        assert rows_of(find_near_duplicates(cut, options, bound=bound)) == whole
    assert not any(tmp_path.iterdir())


def test_steps_by_way_of_files_give_what_one_call_gives(tmp_path: Path) -> None:
    planted = plant(5, 600, 300, english, 60, " ").texts
    options = NearOptions(ngram=3, keep="longest")
    shards = [(0, planted[:250]), (250, planted[250:])]
    rows = [shard_rows(texts_, options, first_document=first) for first, texts_ in reversed(shards)]
    found = find_candidates(rows, options.chosen_bands(), documents=600, bound=Bound())
    np.save(tmp_path / "pairs.npy", np.concatenate([*found]))
    pairs = np.load(tmp_path / "pairs.npy", mmap_mode="r")
    documents = paired_documents(pairs, 600, at_once=10)
    store = write_store(
        tmp_path, [(documents[::-1], shingle_sets([planted[n] for n in documents[::-1]], options.ngram))]
    )
    lengths = np.array([len(planted[n]) for n in documents])
    by_steps = rows_of(resolve(pairs, store, options, lengths=lengths))
    assert by_steps == rows_of(find_near_duplicates([texts_ for _, texts_ in shards], options))


A = "one two three four five six seven eight nine ten"


def test_the_source_decides_then_the_rule_then_the_order() -> None:
    longer = A + " eleven"
    shards = [[A, longer], [longer + " twelve", A]]
    options = {"threshold": 0.5, "ngram": 2}
    kept = {
        ("first", None): 0,
        ("longest", None): 2,
        ("first", (1, 0)): 2,
        ("longest", (0, 1)): 1,
    }
    for (keep, priorities), document in kept.items():
        found = find_near_duplicates(shards, NearOptions(keep=keep, **options), priorities=priorities)
        assert set(found.duplicates.kept.tolist()) == {document}
        assert len(found.duplicates) == 3


def test_case_punctuation_and_width_hide_no_duplicate() -> None:
    found = find_near_duplicates([[A, A.upper().replace(" ", " — "), "，".join(A.split())]])
    assert rows_of(found) == [(1, 0, 1.0), (2, 0, 1.0)]


def test_texts_without_words_and_no_texts_are_no_duplicates() -> None:
    assert not rows_of(find_near_duplicates([]))
    assert not rows_of(find_near_duplicates([[], ["", "", "...", "..."], []]))


@pytest.mark.parametrize(
    "wrong",
    [
        {"threshold": 0},
        {"threshold": 1.1},
        {"ngram": 0},
        {"permutations": 1},
        {"keep": "last"},
        {"bands": Bands(20, 7)},
        {"bucket": 0},
    ],
)
def test_impossible_options_are_refused(wrong) -> None:
    with pytest.raises(ConfigError, match="near duplicates"):
        NearOptions(**wrong)
