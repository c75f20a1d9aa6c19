import numpy as np
import pytest
from corpus.brute_force import components
from hypothesis import given
from hypothesis import strategies as st

from mindformers_megatron.corpus.dedup.clusters import choose_kept, find_clusters
from mindformers_megatron.corpus.dedup.lsh import PAIR_ROW

numbers = st.integers(0, 25).map(lambda number: number * 7)
edges = st.lists(st.tuples(numbers, numbers).filter(lambda pair: pair[0] != pair[1]), max_size=40)


@given(edges, st.integers(1, 10))
def test_clusters_are_what_pairs_connect(pairs: list[tuple[int, int]], cut: int) -> None:
    rows = np.array(pairs, dtype=PAIR_ROW)
    chunks = [rows[first : first + cut] for first in range(0, rows.size, cut)]
    found = find_clusters(chunks, np.arange(0, 182, 7))
    assert dict(zip(found.documents.tolist(), found.firsts.tolist(), strict=True)) == components(pairs)
    assert np.all(np.diff(found.documents) > 0)


@pytest.mark.parametrize("order", ["up", "down", "mixed"])
def test_a_long_chain_is_one_cluster(order: str) -> None:
    count = 50_000
    rows = np.empty(count - 1, dtype=PAIR_ROW)
    names = {
        "up": np.arange(count),
        "down": np.arange(count)[::-1],
        "mixed": np.random.default_rng(0).permutation(count),
    }
    rows["left"], rows["right"] = names[order][:-1], names[order][1:]
    assert not find_clusters([rows], np.arange(count)).firsts.any()


@given(edges, st.sampled_from(["first", "longest"]), st.booleans(), st.data())
def test_one_of_each_cluster_is_kept_by_source_then_rule_then_order(
    pairs: list[tuple[int, int]], keep: str, by_source: bool, data: st.DataObject
) -> None:
    found = find_clusters([np.array(pairs, dtype=PAIR_ROW)], np.arange(0, 182, 7))
    small = st.lists(st.integers(0, 2), min_size=found.documents.size, max_size=found.documents.size)
    priorities, lengths = np.array(data.draw(small), dtype=np.int64), np.array(data.draw(small), dtype=np.int64)
    kept = choose_kept(found, keep=keep, priorities=priorities if by_source else None, lengths=lengths)
    for cluster in set(found.firsts.tolist()):
        members = np.flatnonzero(found.firsts == cluster).tolist()
        best = min(
            members,
            key=lambda row: (
                priorities[row] if by_source else 0,
                -lengths[row] if keep == "longest" else 0,
                found.documents[row],
            ),
        )
        assert set(kept[members].tolist()) == {found.documents[best]}
