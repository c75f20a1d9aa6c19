"""Documents as sets of shingles: the 32-bit hashes of every n words in a row (Broder, 1997).

Thirty-two bits are what MinHash works on. By them two sets of a million shingles each look about 0.0002 more similar
than they are.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mindformers_megatron.corpus.ngrams import find_ngrams, whole_hashes
from mindformers_megatron.corpus.words import batches, split_words

I64 = npt.NDArray[np.int64]
U32 = npt.NDArray[np.uint32]


@dataclass(frozen=True, slots=True)
class Shingles:
    """The shingles of some documents.

    Attributes:
        offsets: int64[D+1], those of document d are ``values[offsets[d] : offsets[d + 1]]``.
        values: uint32, the hashes.
    """

    offsets: I64
    values: U32

    def __len__(self) -> int:
        """Returns the number of documents."""
        return self.offsets.size - 1

    @property
    def sizes(self) -> I64:
        """int64[D], shingles of each document."""
        return np.diff(self.offsets)


def shingle(texts: Sequence[str], ngram: int) -> Shingles:
    """Returns the shingles of texts, in the order of their words, repetitions included.

    A text of fewer than ``ngram`` words is one shingle; one without any word has none, and resembles nothing.

    Args:
        texts: a batch; some 100 bytes of memory per character are used, so cut large ones (``words.batches``).
        ngram: words in a shingle; characters, in scripts without spaces.
    """
    words = split_words(texts)
    grams = find_ngrams(words, ngram)
    sizes = np.diff(words.offsets)
    short = np.flatnonzero((sizes > 0) & (sizes < ngram))
    if not short.size:
        return Shingles(grams.offsets, grams.hashes.astype(np.uint32))
    # A short text has no n-gram: its one shingle goes where its n-grams would begin.
    values = np.insert(grams.hashes, grams.offsets[short], whole_hashes(words, short)).astype(np.uint32)
    return Shingles(grams.offsets + np.searchsorted(short, np.arange(grams.offsets.size)), values)


def shingle_sets(texts: Sequence[str], ngram: int) -> Shingles:
    """Returns the shingles of each text once, in ascending order; any number of texts.

    Memory: four bytes per shingle, and some 100 bytes per character of the largest text.
    """
    return join_shingles(_as_sets(shingle(texts[batch], ngram)) for batch in batches(texts))


def join_shingles(parts: Iterable[Shingles]) -> Shingles:
    """Returns the documents of several parts one after the other."""
    sizes, values = [np.zeros(1, dtype=np.int64)], [np.zeros(0, dtype=np.uint32)]
    for part in parts:
        sizes.append(part.sizes)
        values.append(part.values)
    return Shingles(np.cumsum(np.concatenate(sizes)), np.concatenate(values))


def _as_sets(shingles: Shingles) -> Shingles:
    documents = np.repeat(np.arange(len(shingles), dtype=np.uint64), shingles.sizes)
    # Document and shingle in one word: one sort puts both in order.
    keys = np.unique(documents << np.uint64(32) | shingles.values)
    sizes = np.bincount((keys >> np.uint64(32)).astype(np.int64), minlength=len(shingles))
    return Shingles(np.concatenate(([0], np.cumsum(sizes))), keys.astype(np.uint32))
