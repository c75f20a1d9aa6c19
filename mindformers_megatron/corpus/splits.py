"""Which documents train, validate and test: every one in one part, with all that resemble it.

Documents of a cluster of duplicates, and documents of equal content, stay together. Which part they go to follows from
a hash of their content and the seed: not from their order, nor from the cut into shards. Each source gives each part
its share, so that validation is like training.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from mindformers_megatron.corpus.dedup.clusters import Clusters, find_clusters
from mindformers_megatron.corpus.dedup.lsh import PAIR_ROW
from mindformers_megatron.corpus.words import mix
from mindformers_megatron.errors import ConfigError

I64 = npt.NDArray[np.int64]
U64 = npt.NDArray[np.uint64]

REST = "train"
_GAMMA = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitOptions:
    """How a corpus is split.

    Attributes:
        sizes: by the name of the part, how many documents it gets: a share below 1, or a count of 1 or more. What is
            left is ``train``.
        seed: another one draws other documents.
    """

    sizes: Mapping[str, float] = field(default_factory=lambda: {"validation": 0.005, "test": 0.005})
    seed: int = 1

    def __post_init__(self) -> None:
        for name, size in self.sizes.items():
            if not name or name == REST:
                raise ConfigError(f"splits: {name!r} cannot be sized; {REST} is what the other parts leave")
            if not (0 < size < 1 or (size >= 1 and size == int(size))):
                raise ConfigError(f"splits: {name} is {size}; give a share between 0 and 1, or a count of documents")
        total = sum(size for size in self.sizes.values() if size < 1)
        if total >= 1:
            raise ConfigError(f"splits: the shares add up to {total:g}; leave something to {REST}")

    @property
    def parts(self) -> tuple[str, ...]:
        """The names of the parts, ``train`` first."""
        return (REST, *self.sizes)


def assign_parts(
    keys: U64, sources: I64, options: SplitOptions, *, clusters: Clusters | None = None
) -> npt.NDArray[np.int64]:
    """Returns the part of every document: int64[D], places in ``options.parts``.

    A part never gets more than it asks for; it gets less only as far as what is left are clusters too large for it. A
    cluster of several sources counts for that of its document of smallest key. Memory: some 150 bytes a document.

    Args:
        keys: uint64[D], hashes of the documents' content; equal ones stay together.
        sources: int64[D], the number of each one's source.
        options: the parts.
        clusters: documents that resemble each other, by their places in ``keys``; None: there are none.

    Raises:
        ConfigError: more documents are asked for than there are.
    """
    groups = _groups(keys, clusters)
    firsts, members, sizes = np.unique(groups, return_inverse=True, return_counts=True)
    # The document of smallest key stands for its group, whichever comes first.
    order = np.lexsort((sources, keys, members))
    leaders = order[np.searchsorted(members[order], np.arange(firsts.size))]
    draws = mix(keys[leaders] ^ mix(np.array([options.seed % 2**64], dtype=np.uint64) * _GAMMA))
    group_sources = sources[leaders]
    wanted = _wanted(np.bincount(group_sources, weights=sizes).astype(np.int64), options)
    parts = np.zeros(firsts.size, dtype=np.int64)
    for source in range(wanted.shape[1]):
        rows = np.flatnonzero(group_sources == source)
        rows = rows[np.argsort(draws[rows], kind="stable")]
        for part in range(1, wanted.shape[0]):
            taken = _fill(sizes[rows], wanted[part, source])
            parts[rows[taken]] = part
            rows = rows[~taken]
    return parts[members]


def _groups(keys: U64, clusters: Clusters | None) -> I64:
    """The first document of each one's group."""
    _, first, content = np.unique(keys, return_index=True, return_inverse=True)
    groups = first[content]
    if clusters is None or not clusters.documents.size:
        return groups
    # A cluster may hold a copy of a document that is in none, or in another cluster; then they are one group.
    pairs = np.empty(clusters.documents.size, dtype=PAIR_ROW)
    pairs["left"], pairs["right"] = groups[clusters.documents], groups[clusters.firsts]
    joined = find_clusters([pairs], np.arange(keys.size))
    heads = np.arange(keys.size)
    heads[joined.documents] = joined.firsts
    return heads[groups]


def _wanted(documents: I64, options: SplitOptions) -> I64:
    """int64[parts, sources]: documents of each source for each part; the sum of a part is what it asks for."""
    total = int(documents.sum())
    wanted = np.zeros((len(options.parts), documents.size), dtype=np.int64)
    for part, (name, size) in enumerate(options.sizes.items(), 1):
        count = round(size * total) if size < 1 else int(size)
        left = documents - wanted.sum(axis=0)
        if count > left.sum():
            raise ConfigError(f"splits: {name} asks for {count:,} documents; there are {left.sum():,} left for it")
        exact = documents * (count / max(total, 1))
        wanted[part] = _round(np.minimum(exact, left), left, count)
    return wanted


def _round(exact: npt.NDArray[np.float64], most: I64, count: int) -> I64:
    """Whole numbers near ``exact``, none above ``most``, that add up to ``count``; the largest rests are rounded up."""
    whole = np.floor(exact).astype(np.int64)
    while (missing := count - int(whole.sum())) > 0:
        open_ = np.flatnonzero(whole < most)
        order = open_[np.argsort(whole[open_] - exact[open_], kind="stable")]
        whole[order[:missing]] += 1
    return whole


def _fill(sizes: I64, room: int) -> npt.NDArray[np.bool_]:
    """Takes groups in order, passing over those too large for the room that is left."""
    taken = np.zeros(sizes.size, dtype=np.bool_)
    rest = np.flatnonzero(sizes <= room)
    while rest.size:
        fitting = int(np.searchsorted(np.cumsum(sizes[rest]), room, side="right"))
        taken[rest[:fitting]] = True
        room -= int(sizes[rest[:fitting]].sum())
        # The first that did not fit is too large from now on, and so are all of its size.
        rest = rest[fitting:]
        rest = rest[sizes[rest] <= room]
    return taken
