"""Locality-sensitive hashing: which documents are worth comparing.

A signature of K places is cut into b bands of r places. Two documents are a candidate pair if any band of theirs is
equal, which happens to a pair of Jaccard similarity J with probability 1 - (1 - J**r)**b (Leskovec, Rajaraman, Ullman,
"Mining of Massive Datasets", chapter 3). Bands are compared by 64-bit keys that are sorted, not kept in dictionaries:
it takes less memory, is some ten times faster, and can go on in files.
"""

import functools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mindformers_megatron.corpus.dedup.minhash import is_empty
from mindformers_megatron.corpus.dedup.spill import Bound, Footprint, Rows, Spill, footprint
from mindformers_megatron.corpus.optional import needed
from mindformers_megatron.corpus.words import mix
from mindformers_megatron.errors import ConfigError

I64 = npt.NDArray[np.int64]
U32 = npt.NDArray[np.uint32]
U64 = npt.NDArray[np.uint64]

BAND_ROW = np.dtype([("key", np.uint64), ("document", np.int64)])
PAIR_ROW = np.dtype([("left", np.int64), ("right", np.int64)])
# A corpus without exact copies has fewer as a rule; here is room for more.
_PAIRS_OF_DOCUMENT = 8

# How much worse a missed pair is than one more to compare: candidates are compared exactly, what is missed stays.
_FALSE_POSITIVE_WEIGHT, _FALSE_NEGATIVE_WEIGHT = 0.1, 0.9
_STEP = np.uint64(0x9FB21C651E98DF25)


@dataclass(frozen=True, slots=True)
class Bands:
    """How a signature is cut: ``count`` bands of ``rows`` places each; places left over are not used."""

    count: int
    rows: int

    def probability(self, similarity: float) -> float:
        """Returns how likely two documents of a Jaccard similarity become a candidate pair."""
        return 1 - (1 - similarity**self.rows) ** self.count


@functools.cache
def choose_bands(threshold: float, permutations: int) -> Bands:
    """Returns the bands that ``datasketch`` finds best for pairs at least ``threshold`` similar.

    A missed pair weighs nine times a false candidate, since candidates are verified.

    Raises:
        ConfigError: a number is out of range.
    """
    if not 0 < threshold <= 1:
        raise ConfigError(f"a Jaccard threshold of {threshold}; give one above 0, at most 1")
    if permutations < 2:
        raise ConfigError(f"{permutations} permutations; give 2 or more (128 is usual)")
    try:
        lsh = needed("datasketch", "near deduplication").MinHashLSH(
            threshold=threshold, num_perm=permutations, weights=(_FALSE_POSITIVE_WEIGHT, _FALSE_NEGATIVE_WEIGHT)
        )
    except ValueError as error:
        raise ConfigError(
            f"no bands for a threshold of {threshold} with {permutations} permutations ({error}); give more of them"
        ) from None
    return Bands(lsh.b, lsh.r)


def band_keys(signatures: U32, bands: Bands) -> U64:
    """Returns the key of every band of every signature.

    Args:
        signatures: uint32[D, K], K at least ``bands.count * bands.rows``.
        bands: how to cut.

    Returns:
        uint64[D, bands.count]. Keys of different bands differ too, so that all can be sorted together.
    """
    places = signatures[:, : bands.count * bands.rows].reshape(-1, bands.count, bands.rows)
    keys = np.broadcast_to(mix(np.arange(1, bands.count + 1, dtype=np.uint64)), places.shape[:2])
    for row in range(bands.rows):
        keys = mix((keys ^ places[:, :, row]) * _STEP)
    return keys


def band_rows(signatures: U32, bands: Bands, first_document: int) -> Rows:
    """Returns what a shard contributes to the search for pairs.

    Args:
        signatures: uint32[D, K] of neighbouring documents.
        bands: how to cut.
        first_document: the number, in the whole corpus, of the first of them.

    Returns:
        ``BAND_ROW``, 16 bytes a band; documents without words are left out.
    """
    filled = np.flatnonzero(~is_empty(signatures))
    rows = np.empty((filled.size, bands.count), dtype=BAND_ROW)
    rows["key"] = band_keys(signatures[filled], bands)
    rows["document"] = (filled + first_document)[:, None]
    return rows.ravel()


def candidates_footprint(documents: int, bands: Bands, bound: Bound) -> Footprint:
    """Tells beforehand what ``find_candidates`` needs, for as many pairs as there are as a rule."""
    pairs = footprint(_PAIRS_OF_DOCUMENT * documents, PAIR_ROW.itemsize, bound.half())
    return footprint(documents * bands.count, BAND_ROW.itemsize, bound.half()) + pairs


def find_candidates(
    shards: Iterable[Rows], bands: Bands, *, documents: int, bound: Bound, bucket: int = 64
) -> Iterator[Rows]:
    """Finds the pairs of documents that share a band.

    Args:
        shards: ``BAND_ROW`` arrays, in any order and cut anyhow.
        bands: how they were cut.
        documents: how many there are in the corpus; their numbers are below it.
        bound: memory. The documents of one key must fit in it, so drop exact copies first.
        bucket: where more documents than this share a key, each is paired with the first of them and with the next
            ``bucket`` only. Documents alike reach each other through those, or by another band; all pairs of a large
            bucket would be quadratic.

    Yields:
        ``PAIR_ROW`` arrays, left below right, ascending, every pair once: the same however the shards were cut.
    """
    with Spill(BAND_ROW, "key", limit=1 << 64, expected_rows=documents * bands.count, bound=bound.half()) as keyed:
        for rows in shards:
            keyed.add(rows)
        expected = _PAIRS_OF_DOCUMENT * documents
        with Spill(PAIR_ROW, "left", limit=max(documents, 1), expected_rows=expected, bound=bound.half()) as pairs:
            for rows in keyed:
                for found in _pairs_in_buckets(rows, bucket):
                    pairs.add(found)
            for rows in pairs:
                yield _sorted_once(rows, "left", "right")


def _pairs_in_buckets(rows: Rows, bucket: int) -> Iterator[Rows]:
    keys = np.sort(rows["key"])
    shared = np.unique(keys[1:][keys[1:] == keys[:-1]])
    if not shared.size:
        return
    # Few rows share their key; only those are put in order.
    place = np.searchsorted(shared, rows["key"])
    rows = rows[shared[np.minimum(place, shared.size - 1)] == rows["key"]]
    rows = _sorted_once(rows, "key", "document")
    keys, documents = rows["key"], rows["document"]
    first = np.searchsorted(keys, keys)
    for distance in range(1, bucket + 1):
        same = np.flatnonzero(keys[distance:] == keys[:-distance])
        if not same.size:
            return
        yield _as_pairs(documents[same], documents[same + distance])
    far = np.flatnonzero(np.arange(keys.size) - first > bucket)
    yield _as_pairs(documents[first[far]], documents[far])


def _sorted_once(rows: Rows, major: str, minor: str) -> Rows:
    rows = rows[np.lexsort((rows[minor], rows[major]))]
    return rows[np.append(True, rows[1:] != rows[:-1])]


def _as_pairs(left: I64, right: I64) -> Rows:
    pairs = np.empty(left.size, dtype=PAIR_ROW)
    pairs["left"], pairs["right"] = left, right
    return pairs
