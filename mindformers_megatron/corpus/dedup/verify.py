"""How similar candidates really are: the Jaccard similarity of their shingle sets."""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from mindformers_megatron.corpus.dedup.lsh import PAIR_ROW
from mindformers_megatron.corpus.dedup.shingle_store import ShingleStore
from mindformers_megatron.corpus.dedup.shingles import Shingles
from mindformers_megatron.corpus.dedup.spill import Rows

I64 = npt.NDArray[np.int64]
F32 = npt.NDArray[np.float32]

# Shingles that are compared at once, on both sides; some 50 bytes each.
_AT_ONCE = 1 << 21


def jaccard(left: Shingles, right: Shingles) -> F32:
    """Returns the Jaccard similarity of sets, row by row: float32[P]; 0 where both are empty."""
    both = np.concatenate((_keys(left), _keys(right)))
    # Two sorted runs: the stable sort merges them.
    both.sort(kind="stable")
    shared = both[1:][both[1:] == both[:-1]] >> np.uint64(32)
    intersections = np.bincount(shared.astype(np.int64), minlength=len(left))
    unions = left.sizes + right.sizes - intersections
    return (intersections / np.maximum(unions, 1)).astype(np.float32)


def pair_similarity(pairs: Rows, store: ShingleStore) -> F32:
    """Returns the Jaccard similarity of each pair: float32[P].

    Args:
        pairs: ``PAIR_ROW``.
        store: holds the shingle sets of all documents in them.
    """
    similarities = np.empty(pairs.size, dtype=np.float32)
    for part in _parts(pairs, store):
        left, right = store.take(pairs["left"][part]), store.take(pairs["right"][part])
        similarities[part] = jaccard(left, right)
    return similarities


def verify_pairs(pairs: Rows, store: ShingleStore, threshold: float, *, at_once: int = 1 << 20) -> Iterator[Rows]:
    """Yields the pairs that are at least ``threshold`` similar, in their order.

    Args:
        pairs: ``PAIR_ROW``; may be a mapped file, of which ``at_once`` are read at a time.
        store: holds the shingle sets of all documents in them.
        threshold: of the Jaccard similarity.
        at_once: pairs in memory.
    """
    for first in range(0, pairs.size, at_once):
        chunk = np.array(pairs[first : first + at_once], dtype=PAIR_ROW)
        # Compared as the table shows it: a similarity of 7/10 reaches a threshold of 0.7.
        yield chunk[pair_similarity(chunk, store) >= np.float32(threshold)]


def _keys(shingles: Shingles) -> npt.NDArray[np.uint64]:
    """Row and shingle in one word; ascending, since rows and the shingles of each are."""
    rows = np.repeat(np.arange(len(shingles), dtype=np.uint64), shingles.sizes)
    return rows << np.uint64(32) | shingles.values


def _parts(pairs: Rows, store: ShingleStore) -> Iterator[slice]:
    """Cuts pairs so that each part compares about ``_AT_ONCE`` shingles, and one pair at least."""
    if not pairs.size:
        return
    sizes = store.sizes[store.rows(pairs["left"])] + store.sizes[store.rows(pairs["right"])]
    cuts = np.searchsorted(np.cumsum(sizes), np.arange(_AT_ONCE, sizes.sum() + _AT_ONCE, _AT_ONCE), side="right")
    edges = np.unique(np.concatenate(([0], cuts, [pairs.size])))
    for first, last in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
        yield slice(first, last)
