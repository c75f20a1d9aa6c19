"""MinHash signatures: what of a document's shingles comes first under each of K permutations (Broder, 1997).

The share of places in which two signatures agree estimates the Jaccard similarity of the two sets, with a standard
error of sqrt(J (1 - J) / K). The permutations are those of ``datasketch`` (scheme ``affine32``: the hash is mixed once,
then a·h + b modulo 2**32, with a odd), from the same seed: the signatures are the same bit for bit, and can be put into
a ``datasketch.MinHashLSH`` or compared with what it holds.
"""

import functools
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from mindformers_megatron.corpus.dedup.shingles import Shingles, shingle
from mindformers_megatron.corpus.optional import needed
from mindformers_megatron.corpus.words import batches

I64 = npt.NDArray[np.int64]
U32 = npt.NDArray[np.uint32]

SCHEME = "affine32"
# Where a document without shingles has its minimum.
EMPTY = np.uint32(0xFFFFFFFF)

_M1, _M2 = np.uint32(0x85EBCA6B), np.uint32(0xC2B2AE35)
_S16, _S13 = np.uint32(16), np.uint32(13)


def sign(texts: Sequence[str], *, ngram: int, permutations: int, seed: int = 1) -> U32:
    """Returns the signatures of any number of texts.

    Memory: four bytes per permutation and text, and some 100 bytes per character of the largest text.

    Args:
        texts: the documents.
        ngram: words in a shingle; characters, in scripts without spaces.
        permutations: K.
        seed: of the permutations.

    Returns:
        uint32[D, K]; all ``EMPTY`` for a text without words.
    """
    signatures = np.empty((len(texts), permutations), dtype=np.uint32)
    for batch in batches(texts):
        signatures[batch] = sign_shingles(shingle(texts[batch], ngram), permutations, seed)
    return signatures


def sign_shingles(shingles: Shingles, permutations: int, seed: int = 1) -> U32:
    """Returns the signatures of documents whose shingles are known: uint32[D, K]."""
    # Transposed while it is filled: each permutation then writes one row, not one value in every K.
    minima = np.full((permutations, len(shingles)), EMPTY, dtype=np.uint32)
    documents = np.flatnonzero(shingles.sizes)
    if documents.size:
        hashes = _premix(shingles.values)
        permuted = np.empty_like(hashes)
        first = shingles.offsets[documents]
        multipliers, increments = coefficients(permutations, seed)
        for row, multiplier, increment in zip(minima, multipliers, increments, strict=True):
            np.multiply(hashes, multiplier, out=permuted)
            np.add(permuted, increment, out=permuted)
            row[documents] = np.minimum.reduceat(permuted, first)
    return np.ascontiguousarray(minima.T)


def similarity(left: U32, right: U32) -> npt.NDArray[np.float32]:
    """Estimates the Jaccard similarity of documents, row by row.

    Args:
        left: uint32[P, K] signatures.
        right: uint32[P, K].
    """
    return np.count_nonzero(left == right, axis=1).astype(np.float32) / np.float32(left.shape[1])


def is_empty(signatures: U32) -> npt.NDArray[np.bool_]:
    """Returns bool[D]: whether each document has no shingle at all."""
    return (signatures == EMPTY).all(axis=1)


@functools.lru_cache(maxsize=4)
def coefficients(permutations: int, seed: int) -> tuple[U32, U32]:
    """Returns a and b of each permutation: uint32[K] each."""
    multipliers, increments = (
        needed("datasketch", "near deduplication").MinHash(permutations, seed=seed, scheme=SCHEME).permutations
    )
    return multipliers, increments


def _premix(hashes: U32) -> U32:
    """The finaliser of MurmurHash3 for 32 bits: a bijection."""
    hashes = (hashes ^ (hashes >> _S16)) * _M1
    hashes = (hashes ^ (hashes >> _S13)) * _M2
    return hashes ^ (hashes >> _S16)
