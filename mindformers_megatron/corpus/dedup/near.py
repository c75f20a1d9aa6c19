"""Near duplicates: documents that say nearly the same in nearly the same words.

The steps, each a pure function over arrays, so that shards can be worked on anywhere:

    every shard        signatures of its texts, cut into bands           ``shard_rows``
    the whole corpus   pairs of documents that share a band              ``lsh.find_candidates``
    every shard        shingle sets of its texts that are in pairs       ``shingles.shingle_sets``
    the whole corpus   pairs similar enough, clusters, the one to keep   ``resolve``

What is dropped does not depend on how the corpus is cut into shards, on the order in which they come, or on the memory
given. ``find_near_duplicates`` does all of it in one process.
"""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from mindformers_megatron.corpus.dedup.clusters import Clusters, Keep, choose_kept, find_clusters
from mindformers_megatron.corpus.dedup.duplicates import WHOLE, Duplicates
from mindformers_megatron.corpus.dedup.lsh import PAIR_ROW, Bands, band_rows, choose_bands, find_candidates
from mindformers_megatron.corpus.dedup.minhash import sign
from mindformers_megatron.corpus.dedup.shingle_store import ShingleStore, gather_store
from mindformers_megatron.corpus.dedup.shingles import Shingles, shingle_sets
from mindformers_megatron.corpus.dedup.spill import Bound, Rows
from mindformers_megatron.corpus.dedup.verify import pair_similarity, verify_pairs
from mindformers_megatron.errors import ConfigError

I64 = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class NearOptions:
    """What counts as a near duplicate, and which one of a cluster is kept.

    Attributes:
        threshold: Jaccard similarity of two shingle sets from which on they are duplicates.
        ngram: words in a shingle, 5 to 10 as a rule; characters, in scripts without spaces.
        permutations: places of a signature; more find more of the pairs close to the threshold, and cost time.
        bands: how signatures are cut; None: what suits the threshold best, a missed pair being nine times as bad as
            one more to compare.
        keep: of a cluster, after the priority of the sources: the ``first`` document, or the ``longest``.
        seed: of the permutations.
        bucket: see ``find_candidates``.
    """

    threshold: float = 0.7
    ngram: int = 5
    permutations: int = 128
    bands: Bands | None = None
    keep: Keep = "first"
    seed: int = 1
    bucket: int = 64

    def __post_init__(self) -> None:
        if not 0 < self.threshold <= 1:
            raise ConfigError(f"near duplicates: threshold {self.threshold}; give one above 0, at most 1")
        for name, least in (("ngram", 1), ("permutations", 2), ("bucket", 1)):
            if getattr(self, name) < least:
                raise ConfigError(f"near duplicates: {name} {getattr(self, name)}; give {least} or more")
        if self.keep not in ("first", "longest"):
            raise ConfigError(f"near duplicates: keep {self.keep!r}; give 'first' or 'longest'")
        bands = self.bands
        if bands is not None and (min(bands.count, bands.rows) < 1 or bands.count * bands.rows > self.permutations):
            raise ConfigError(
                f"near duplicates: {bands.count} bands of {bands.rows} rows do not fit in {self.permutations} "
                "permutations"
            )

    def chosen_bands(self) -> Bands:
        """Returns the bands in force."""
        return self.bands or choose_bands(self.threshold, self.permutations)

    def index_options(self) -> dict[str, Any]:
        """Returns what an index is made with once and for all: how documents are hashed, and when they are alike."""
        return {
            "threshold": self.threshold,
            "ngram": self.ngram,
            "permutations": self.permutations,
            "seed": self.seed,
            "bands": asdict(self.chosen_bands()),
        }


@dataclass(frozen=True, slots=True)
class NearDuplicates:
    """What was found.

    Attributes:
        duplicates: what is dropped.
        clusters: all documents of the clusters, those that are kept too.
    """

    duplicates: Duplicates
    clusters: Clusters


def shard_rows(texts: Sequence[str], options: NearOptions, *, first_document: int) -> Rows:
    """Returns the band rows of a shard, see ``lsh.band_rows``."""
    signatures = sign(texts, ngram=options.ngram, permutations=options.permutations, seed=options.seed)
    return band_rows(signatures, options.chosen_bands(), first_document)


def paired_documents(pairs: Rows, documents: int, *, at_once: int = 1 << 20) -> I64:
    """Returns the documents that occur in pairs, ascending; one byte of memory for each document of the corpus.

    Args:
        pairs: ``PAIR_ROW``; may be a mapped file.
        documents: how many documents there are.
        at_once: pairs in memory.
    """
    seen = np.zeros(documents, dtype=np.bool_)
    for first in range(0, pairs.size, at_once):
        chunk = pairs[first : first + at_once]
        seen[chunk["left"]] = True
        seen[chunk["right"]] = True
    return np.flatnonzero(seen)


def resolve(
    pairs: Rows,
    store: ShingleStore,
    options: NearOptions,
    *,
    priorities: I64 | None = None,
    lengths: I64 | None = None,
) -> NearDuplicates:
    """Decides what is dropped.

    Memory: some 60 bytes for each document in a pair, besides ``pairs`` and ``store``, which may be mapped files.

    Args:
        pairs: ``PAIR_ROW``, the candidates.
        store: the shingle sets of all documents in them, and of no others.
        options: the threshold, and which is kept.
        priorities: int64, one for each of ``store.documents``: of its source, the smallest is kept. None: all alike.
        lengths: int64, one for each of ``store.documents``; asked for by ``keep='longest'``.
    """
    clusters = find_clusters(verify_pairs(pairs, store, options.threshold), store.documents)
    places = store.rows(clusters.documents) if clusters.documents.size else clusters.documents
    kept = choose_kept(
        clusters,
        keep=options.keep,
        priorities=None if priorities is None else priorities[places],
        lengths=None if lengths is None else lengths[places],
    )
    dropped = np.flatnonzero(kept != clusters.documents)
    compared = np.empty(dropped.size, dtype=PAIR_ROW)
    compared["left"], compared["right"] = clusters.documents[dropped], kept[dropped]
    duplicates = Duplicates(
        documents=compared["left"].copy(),
        parts=np.full(dropped.size, WHOLE, dtype=np.int32),
        kept=compared["right"].copy(),
        similarity=pair_similarity(compared, store),
    )
    return NearDuplicates(duplicates, clusters)


def find_near_duplicates(
    shards: Sequence[Sequence[str]],
    options: NearOptions | None = None,
    *,
    priorities: Sequence[int] | None = None,
    bound: Bound | None = None,
) -> NearDuplicates:
    """Finds the near duplicates of a corpus in one process; documents are numbered through the shards.

    Args:
        shards: of texts; each is gone through twice.
        options: None for the defaults.
        priorities: one per shard, of its source; the smallest is kept.
        bound: memory for the search of pairs. The pairs found, and the shingle sets of the documents in them, come on
            top; with many, call the steps and keep those in files.
    """
    options = options or NearOptions()
    bound = bound or Bound()
    edges = np.concatenate(([0], np.cumsum([len(texts) for texts in shards], dtype=np.int64)))
    rows = (
        shard_rows(texts, options, first_document=int(first)) for texts, first in zip(shards, edges[:-1], strict=True)
    )
    found = find_candidates(rows, options.chosen_bands(), documents=int(edges[-1]), bound=bound, bucket=options.bucket)
    pairs = np.concatenate([np.zeros(0, dtype=PAIR_ROW), *found])
    candidates = paired_documents(pairs, int(edges[-1]))
    lengths = np.zeros(candidates.size, dtype=np.int64)

    def parts() -> Iterator[tuple[I64, Shingles]]:
        for texts, first, last in zip(shards, edges[:-1], edges[1:], strict=True):
            places = slice(*np.searchsorted(candidates, (first, last)))
            chosen = [texts[number - first] for number in candidates[places]]
            lengths[places] = [len(text) for text in chosen]
            yield candidates[places], shingle_sets(chosen, options.ngram)

    store = gather_store(parts())
    ranks = None
    if priorities is not None:
        ranks = np.asarray(priorities, dtype=np.int64)[np.searchsorted(edges, candidates, side="right") - 1]
    return resolve(pairs, store, options, priorities=ranks, lengths=lengths)
