"""Hashes of every n words in a row."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mindformers_megatron.corpus.words import I64, U64, Words, mix

_BASE = np.uint64(0xD1342543DE82EF95)


@dataclass(frozen=True, slots=True)
class Ngrams:
    """The n-grams of some texts, in order.

    Attributes:
        n: words in each.
        offsets: int64[D+1], the n-grams of text d are those from ``offsets[d]`` up to ``offsets[d + 1]``.
        first_words: int64[G], the number of the word that each begins with.
        hashes: uint64[G], equal for equal n-grams of the same n.
    """

    n: int
    offsets: I64
    first_words: I64
    hashes: U64


def find_ngrams(words: Words, n: int) -> Ngrams:
    """Returns every n-gram that lies within one text; a text of fewer than ``n`` words has none."""
    sizes = np.diff(words.offsets)
    offsets = np.zeros(words.offsets.size, dtype=np.int64)
    np.cumsum(np.maximum(sizes - (n - 1), 0), out=offsets[1:])
    first_words = np.flatnonzero(_inside(words, n))
    return Ngrams(n, offsets, first_words, _combine(words.hashes, n)[first_words])


def whole_hashes(words: Words, texts: I64) -> U64:
    """Returns for each of some texts the hash of all of its words, as of one n-gram.

    Args:
        words: of all the texts.
        texts: int64[T], numbers of texts of one word at least; meant for short ones: it takes as many rounds as the
            longest of them has words.
    """
    first, last = words.offsets[texts], words.offsets[texts + 1]
    hashes = words.hashes[first]
    place = first + 1
    while (active := np.flatnonzero(place < last)).size:
        hashes[active] = hashes[active] * _BASE + words.hashes[place[active]]
        place += 1
    return mix(hashes)


def _combine(hashes: U64, n: int) -> U64:
    """The hash of the n words from each word on; only as many as there are n words for."""
    count = max(hashes.size - n + 1, 0)
    combined = hashes[:count].copy()
    for place in range(1, n):
        combined *= _BASE
        combined += hashes[place : place + count]
    return mix(combined)


def _inside(words: Words, n: int) -> npt.NDArray[np.bool_]:
    """Whether the n words from each word on belong to one text."""
    inside = np.ones(max(words.hashes.size - n + 1, 0), dtype=np.bool_)
    for back in range(1, n):
        crossing = words.offsets[1:-1] - back
        inside[crossing[(crossing >= 0) & (crossing < inside.size)]] = False
    return inside
