"""Hashes of every n words in a row."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

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
    return next(find_ngrams_of(words, [n]))


def find_ngrams_of(words: Words, lengths: Sequence[int]) -> Iterator[Ngrams]:
    """Yields the n-grams of several lengths, ascending, for little more than those of the largest cost alone.

    Args:
        words: of some texts.
        lengths: each 1 or more.
    """
    sizes = np.diff(words.offsets)
    hashes = words.hashes.copy()
    inside = np.ones(hashes.size, dtype=np.bool_)
    for n in range(1, max(lengths) + 1):
        if n > 1:
            count = max(words.hashes.size - n + 1, 0)
            hashes, inside = hashes[:count], inside[:count]
            hashes *= _BASE
            hashes += words.hashes[n - 1 :]
            # So many words before the end of its text, an n-gram would reach into the next one.
            crossing = words.offsets[1:-1] - (n - 1)
            inside[crossing[(crossing >= 0) & (crossing < count)]] = False
        if n in lengths:
            offsets = np.zeros(words.offsets.size, dtype=np.int64)
            np.cumsum(np.maximum(sizes - (n - 1), 0), out=offsets[1:])
            first_words = np.flatnonzero(inside)
            yield Ngrams(n, offsets, first_words, mix(hashes[first_words]))


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
