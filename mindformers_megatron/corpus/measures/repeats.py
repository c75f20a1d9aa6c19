"""How much of a text is n-grams that it has more than once (Rae et al., "Scaling Language Models", 2021, table A1).

What occurs twice in n + 1 words does so in the n words it begins with and the n words it ends with. So n-grams are
grown from those that repeat, which are few, and a pair of them is looked up by their numbers: exactly, without a hash.
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mindformers_megatron.corpus.measures.texts import MeasuredTexts, ratio, word_lengths
from mindformers_megatron.corpus.ngrams import find_ngrams
from mindformers_megatron.corpus.words import I64, U64, Words

Shares = NDArray[np.float64]

_SPREAD = np.uint64(0x9E3779B97F4A7C15)
_MULTIPLIER = 0xD6E8FEB86659FD93


def first_places(keys: U64) -> I64:
    """For each key the place of the first one that is equal, int64[n].

    By a table of places, in a few rounds, each for the keys that met a different one in their slot: many times as fast
    as sorting.

    Args:
        keys: uint64[n], fewer than 2**31.
    """
    first = left = np.arange(keys.size)
    some = keys
    bits = max(int(keys.size - 1).bit_length() + 1, 4)
    table = np.empty(1 << bits, np.int32)
    multiplier = _MULTIPLIER
    while some.size:
        slots = ((some * np.uint64(multiplier)) >> np.uint64(64 - bits)).view(np.int64)
        # Of several writes to a slot the last one stays, hence backwards.
        table[slots[::-1]] = left[::-1]
        met = table.take(slots).astype(np.int64)
        other = np.flatnonzero(keys.take(met) != some)
        if left is first:
            first = met
        else:
            first[left] = met
        left, some = left.take(other) if left.size < keys.size else other, some.take(other)
        multiplier = multiplier * _MULTIPLIER % 2**64
    return first


@dataclass(frozen=True, slots=True)
class Repeats:
    """The n-grams that their text has more than once.

    Attributes:
        n: words in each.
        places: int64[R], the word that each begins with, ascending.
        first: int64[R], for each the place in ``places`` of the first that is equal.
    """

    n: int
    places: I64
    first: I64


@functools.lru_cache(maxsize=16)
def repeats_up_to(longest: int) -> Callable[[MeasuredTexts], list[Repeats]]:
    """A measure: what repeats, for n from 2 up to ``longest``; the list ends where nothing does."""

    def measure(texts: MeasuredTexts) -> list[Repeats]:
        words = texts.words
        pairs = find_ngrams(words, 2)
        text = np.repeat(np.arange(len(texts), dtype=np.uint64), np.diff(pairs.offsets))
        found = []
        repeats = _repeating(2, pairs.first_words, pairs.hashes + text * _SPREAD)
        number = np.full(words.hashes.size + 1, -1)
        while repeats.places.size:
            found.append(repeats)
            if repeats.n == longest:
                break
            # The number of an n-gram is that of its first occurrence, so it tells the text too.
            number[repeats.places] = repeats.places[repeats.first]
            begins = repeats.places[number[repeats.places + 1] >= 0]
            keys = number[begins].astype(np.uint64) << np.uint64(32) | number[begins + 1].astype(np.uint64)
            number[repeats.places] = -1
            repeats = _repeating(repeats.n + 1, begins, keys)
        return found

    return measure


def _repeating(n: int, places: I64, keys: U64) -> Repeats:
    first = first_places(keys)
    counts = np.bincount(first, minlength=first.size)
    again = counts[first] > 1
    # Places are numbered anew among those that stay.
    renumbered = np.cumsum(again) - 1
    return Repeats(n, places[again], renumbered[first[again]])


@functools.lru_cache(maxsize=16)
def top_shares(sizes: tuple[int, ...], longest: int) -> Callable[[MeasuredTexts], Shares]:
    """A measure: for each n, the share of a text's characters that its most frequent n-gram takes, float64[D, sizes].

    Characters within words count. An n-gram that is there once is no repeat.

    Args:
        sizes: the n, from 2 to ``longest``.
        longest: of all n that are asked for, so that what repeats is looked for once.
    """

    def of_texts(texts: MeasuredTexts, repeats: Repeats) -> NDArray[np.int64]:
        word_ends, _ = texts.of(_word_ends)
        kinds = np.flatnonzero(repeats.first == np.arange(repeats.first.size))
        begins = repeats.places[kinds]
        counts = np.bincount(repeats.first, minlength=repeats.first.size)[kinds]
        most = np.zeros(len(texts), np.int64)
        np.maximum.at(
            most, _texts_of(texts.words, begins), counts * (word_ends[begins + repeats.n] - word_ends[begins])
        )
        return most

    return _shares(of_texts, sizes, longest)


@functools.lru_cache(maxsize=16)
def repeated_shares(sizes: tuple[int, ...], longest: int) -> Callable[[MeasuredTexts], Shares]:
    """A measure: for each n, the share of a text's characters in n-grams that it had before, float64[D, sizes].

    Characters within words count, each once, however many of these n-grams it is in.

    Args:
        sizes: the n, from 2 to ``longest``.
        longest: of all n that are asked for, so that what repeats is looked for once.
    """

    def of_texts(texts: MeasuredTexts, repeats: Repeats) -> NDArray[np.int64]:
        word_ends, _ = texts.of(_word_ends)
        again = repeats.places[repeats.first != np.arange(repeats.first.size)]
        # Overlapping ones are joined: each adds what is behind the end of the one before.
        ends = again + repeats.n
        starts = np.maximum(again, np.append(0, ends[:-1]))
        return _summed(_texts_of(texts.words, again), word_ends[ends] - word_ends[starts], len(texts))

    return _shares(of_texts, sizes, longest)


def _shares(
    of_texts: Callable[[MeasuredTexts, Repeats], NDArray[np.int64]], sizes: tuple[int, ...], longest: int
) -> Callable[[MeasuredTexts], Shares]:
    def measure(texts: MeasuredTexts) -> Shares:
        shares = np.zeros((len(texts), len(sizes)))
        _, totals = texts.of(_word_ends)
        for repeats in texts.of(repeats_up_to(longest)):
            if repeats.n in sizes:
                shares[:, sizes.index(repeats.n)] = ratio(of_texts(texts, repeats), totals)
        return shares

    return measure


def _summed(text: I64, values: I64, count: int) -> NDArray[np.int64]:
    return np.bincount(text, values, minlength=count).astype(np.int64)


def _texts_of(words: Words, places: I64) -> I64:
    return np.searchsorted(words.offsets, places, "right") - 1


def _word_ends(texts: MeasuredTexts) -> tuple[I64, I64]:
    """(characters within words before each word, int64[W+1]; of each text, int64[D])."""
    ends = np.append(0, np.cumsum(texts.of(word_lengths)))
    offsets = texts.words.offsets
    return ends, ends[offsets[1:]] - ends[offsets[:-1]]
