"""Some texts, measured: each thing once, when it is first asked for."""

import functools
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from mindformers_megatron.corpus.words import I64, Words, split_words

T = TypeVar("T")


class MeasuredTexts:
    """Texts, and what was measured of them.

    Nothing here depends on which texts are measured together.

    Args:
        texts: the texts.
    """

    def __init__(self, texts: Sequence[str]) -> None:
        self.texts = texts
        self._known: dict[Callable[[MeasuredTexts], Any], Any] = {}

    def __len__(self) -> int:
        return len(self.texts)

    @cached_property
    def words(self) -> Words:
        """The words, and the code points of the texts joined by line ends."""
        return split_words(self.texts)

    @cached_property
    def bounds(self) -> I64:
        """int64[D+1]: where each text begins in the joined texts; the last is where they end."""
        words = self.words
        return np.append(words.text_starts, words.codes.size)

    def of(self, measure: "Callable[[MeasuredTexts], T]") -> T:
        """A measure of these texts.

        Args:
            measure: a function of them; it is called once.
        """
        try:
            return self._known[measure]
        except KeyError:
            return self._known.setdefault(measure, measure(self))

    def count(self, positions: I64) -> I64:
        """How many of some positions (ascending, in the joined texts) are in each text, int64[D]."""
        return np.diff(np.searchsorted(positions, self.bounds))

    def sums(self, values: NDArray[Any], offsets: I64) -> NDArray[Any]:
        """The sum of the values of each text, of which ``offsets`` tells where they begin."""
        totals = np.append(0, np.cumsum(values))
        return totals[offsets[1:]] - totals[offsets[:-1]]


def ratio(part: NDArray[Any], whole: NDArray[Any]) -> NDArray[np.float64]:
    """``part / whole``; 0 where there is nothing."""
    return np.divide(part, whole, out=np.zeros(len(whole)), where=whole > 0)


def lengths(texts: MeasuredTexts) -> I64:
    """Characters of each text, int64[D]."""
    return np.diff(texts.bounds) - 1


def word_counts(texts: MeasuredTexts) -> I64:
    """Words of each text, int64[D]: runs of letters and digits; in Chinese and Japanese every character."""
    return np.diff(texts.words.offsets)


def word_lengths(texts: MeasuredTexts) -> I64:
    """Characters of each word, int64[W]."""
    return texts.words.ends - texts.words.starts


@functools.lru_cache(maxsize=64)
def hashes_of(words: tuple[str, ...]) -> NDArray[np.uint64]:
    """The hashes of some words, uint64[n]; a word of several is each of them."""
    return np.unique(split_words(list(words)).hashes)


@functools.lru_cache(maxsize=64)
def distinct_among(words: tuple[str, ...]) -> Callable[[MeasuredTexts], I64]:
    """A measure: how many of some words a text has, repeated ones counted once, int64[D]."""
    wanted = hashes_of(words)

    def measure(texts: MeasuredTexts) -> I64:
        found = texts.words
        places = np.searchsorted(wanted, found.hashes)
        hits = np.flatnonzero(wanted[np.minimum(places, wanted.size - 1)] == found.hashes)
        text = np.searchsorted(found.offsets, hits, "right") - 1
        pairs = np.unique(text * wanted.size + places[hits])
        return np.bincount(pairs // wanted.size, minlength=len(texts))

    return measure
