"""Documents that resemble each other, directly or by way of others, and the one of them that is kept."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from mindformers_megatron.corpus.dedup.spill import Rows

I64 = npt.NDArray[np.int64]

Keep = Literal["first", "longest"]


@dataclass(frozen=True, slots=True)
class Clusters:
    """The clusters of two documents or more.

    Attributes:
        documents: int64[M], all documents in them, ascending.
        firsts: int64[M], the smallest document number in the cluster of each, which names the cluster.
    """

    documents: I64
    firsts: I64


def find_clusters(pairs: Iterable[Rows], documents: I64) -> Clusters:
    """Finds the connected components of a graph, by union-find over whole arrays.

    Every root that has a smaller neighbour is hung under the smallest one, and paths are halved until all are flat;
    the rounds grow with the logarithm of the size.

    Args:
        pairs: ``PAIR_ROW`` arrays, in any order: the edges.
        documents: int64, ascending: all that may occur in them. Memory is some 40 bytes for each.
    """
    parents = np.arange(documents.size)
    for rows in pairs:
        _unite(parents, np.searchsorted(documents, rows["left"]), np.searchsorted(documents, rows["right"]))
    clustered = np.flatnonzero(np.bincount(parents, minlength=documents.size)[parents] > 1)
    return Clusters(documents[clustered], documents[parents[clustered]])


def choose_kept(clusters: Clusters, *, keep: Keep, priorities: I64 | None = None, lengths: I64 | None = None) -> I64:
    """Returns for each document of the clusters the one that is kept instead of it: int64[M].

    Sources decide first, then the rule, then the order of the documents.

    Args:
        clusters: of M documents.
        keep: ``first``, the smallest number; or ``longest``.
        priorities: int64[M], of the source of each document; the smallest is kept. None: all alike.
        lengths: int64[M], asked for by ``longest``.
    """
    keys = [clusters.documents]
    if keep == "longest":
        if lengths is None:
            raise ValueError("keeping the longest needs lengths")
        keys.append(-lengths)
    if priorities is not None:
        keys.append(priorities)
    order = np.lexsort((*keys, clusters.firsts))
    firsts = clusters.firsts[order]
    best = clusters.documents[order][np.searchsorted(firsts, firsts)]
    kept = np.empty_like(best)
    kept[order] = best
    return kept


def _unite(parents: I64, left: I64, right: I64) -> None:
    """Joins the trees of left and right; all trees are flat before and after, their roots the smallest in them."""
    while True:
        left_roots, right_roots = parents[left], parents[right]
        apart = np.flatnonzero(left_roots != right_roots)
        if not apart.size:
            return
        left_roots, right_roots = left_roots[apart], right_roots[apart]
        np.minimum.at(parents, np.maximum(left_roots, right_roots), np.minimum(left_roots, right_roots))
        while not np.array_equal(grandparents := parents[parents], parents):
            parents[:] = grandparents
        left, right = left[apart], right[apart]
