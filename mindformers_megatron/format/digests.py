"""A number for each document of a pair, by which documents of several pairs are compared."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mindformers_megatron.format.documents import DocumentBatch, read_documents
from mindformers_megatron.format.index import map_index
from mindformers_megatron.format.verify.tasks import OnBytes

# Odd, and without a pattern: the fraction of the golden ratio, and the multipliers of SplitMix64 (Steele, Lea and
# Flood, *Fast splittable pseudorandom number generators*, 2014).
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)

# Words of so many tokens stay in the cache of a core.
_TOKENS = 1 << 16


@dataclass(frozen=True, slots=True)
class DigestDocuments:
    """Computes the digests of documents ``[begin, end)``; returns uint64."""

    prefix: str
    begin: int
    end: int

    def run(self, on_bytes: OnBytes) -> NDArray[np.uint64]:
        """See ``Task``."""
        digests = [np.empty(0, np.uint64)]
        for batch in read_documents(map_index(self.prefix), self.begin, self.end, batch_tokens=_TOKENS):
            digests.append(document_digests(batch))
            on_bytes(batch.tokens.nbytes)
        return np.concatenate(digests)


def document_digests(batch: DocumentBatch) -> NDArray[np.uint64]:
    """uint64[D]: equal for documents of the same ids in the same order, and hardly ever for others.

    Neither the type of the tokens nor the division into sequences counts. Not for security: who wants equal digests of
    different documents can have them.
    """
    edges = batch.edges()
    sizes = np.diff(edges)
    digests = _mixed(sizes.astype(np.uint64))
    if not batch.tokens.size:
        return digests
    # The position is part of what is mixed, so that the sum tells orders apart.
    places = np.arange(batch.tokens.size, dtype=np.uint64) - np.repeat(edges[:-1], sizes).astype(np.uint64)
    mixed = _mixed(_as_words(batch.tokens) + (places + np.uint64(1)) * _GOLDEN)
    filled = np.flatnonzero(sizes)
    digests[filled] += np.add.reduceat(mixed, edges[filled])
    return _mixed(digests)


def _as_words(tokens: NDArray[Any]) -> NDArray[np.uint64]:
    if tokens.dtype.kind == "f":
        return tokens.astype(np.float64).view(np.uint64)
    return tokens.astype(np.int64).view(np.uint64)


def _mixed(words: NDArray[np.uint64]) -> NDArray[np.uint64]:
    words = (words ^ (words >> np.uint64(30))) * _FIRST
    words = (words ^ (words >> np.uint64(27))) * _SECOND
    mixed: NDArray[np.uint64] = words ^ (words >> np.uint64(31))
    return mixed
