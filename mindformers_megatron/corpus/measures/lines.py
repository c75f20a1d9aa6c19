"""The lines and paragraphs of texts: how long they are, how they begin and end, which were there before."""

import functools
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mindformers_megatron.corpus.measures.repeats import first_places
from mindformers_megatron.corpus.measures.signs import BULLET, ENDING, chunks, flags
from mindformers_megatron.corpus.measures.texts import MeasuredTexts, ratio
from mindformers_megatron.corpus.words import I64

_NEWLINE, _DOT, _ELLIPSIS = ord("\n"), ord("."), ord("…")
_SPREAD = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True, slots=True)
class Lines:
    """The lines of texts that are not blank, without the blanks around them; or their paragraphs.

    Attributes:
        offsets: int64[D+1], the lines of text d are those from ``offsets[d]`` up to ``offsets[d + 1]``.
        starts: int64[L], where each begins in the joined texts.
        ends: int64[L], where it ends (exclusive).
        number: int64[L], of the line among all lines of the joined texts, blank ones too.
    """

    offsets: I64
    starts: I64
    ends: I64
    number: I64


def lines(texts: MeasuredTexts) -> Lines:
    """The lines."""
    starts, ends = texts.of(chunks)
    cuts = np.searchsorted(starts, np.flatnonzero(texts.words.codes == _NEWLINE))
    first = np.append(0, cuts[:-1])
    number = np.flatnonzero(cuts > first)
    starts, ends = starts[first[number]], ends[cuts[number] - 1]
    return Lines(np.searchsorted(starts, texts.bounds), starts, ends, number)


def paragraphs(texts: MeasuredTexts) -> Lines:
    """Lines with no blank one between them, together."""
    found = texts.of(lines)
    begins = np.diff(found.number, prepend=-2) > 1
    # The line behind the last one of a text belongs to another text.
    begins[found.offsets[:-1][np.diff(found.offsets) > 0]] = True
    first = np.flatnonzero(begins)
    last = np.append(first, begins.size)[1:] - 1
    starts = found.starts[first]
    return Lines(np.searchsorted(starts, texts.bounds), starts, found.ends[last], found.number[first])


def line_counts(texts: MeasuredTexts) -> I64:
    """Lines of each text, int64[D]."""
    return np.diff(texts.of(lines).offsets)


def _share(texts: MeasuredTexts, chosen: NDArray[np.bool_]) -> NDArray[np.float64]:
    found = texts.of(lines)
    return ratio(texts.sums(chosen, found.offsets), np.diff(found.offsets))


def bullet_shares(texts: MeasuredTexts) -> NDArray[np.float64]:
    """Lines that begin with a bullet, among those of each text, float64[D]."""
    return _share(texts, (texts.of(flags)[texts.of(lines).starts] & BULLET) > 0)


def ellipsis_shares(texts: MeasuredTexts) -> NDArray[np.float64]:
    """Lines that end with an ellipsis, float64[D]."""
    codes, ends = texts.words.codes, texts.of(lines).ends
    dots = [codes[np.maximum(ends - back, 0)] == _DOT for back in (1, 2, 3)]
    return _share(texts, (codes[ends - 1] == _ELLIPSIS) | (dots[0] & dots[1] & dots[2]))


def ending_shares(texts: MeasuredTexts) -> NDArray[np.float64]:
    """Lines that end as sentences do, float64[D]."""
    return _share(texts, (texts.of(flags)[texts.of(lines).ends - 1] & ENDING) > 0)


@functools.lru_cache(maxsize=16)
def short_shares(characters: int) -> Callable[[MeasuredTexts], NDArray[np.float64]]:
    """A measure: lines of so many characters at most, float64[D]."""

    def measure(texts: MeasuredTexts) -> NDArray[np.float64]:
        found = texts.of(lines)
        return _share(texts, found.ends - found.starts <= characters)

    return measure


def repeated_lines(texts: MeasuredTexts) -> NDArray[np.float64]:
    """Of the lines of each text, those that it had before: their share, and that of their characters, float64[D, 2]."""
    return _repeated(texts, texts.of(lines))


def repeated_paragraphs(texts: MeasuredTexts) -> NDArray[np.float64]:
    """The same of paragraphs."""
    return _repeated(texts, texts.of(paragraphs))


def _repeated(texts: MeasuredTexts, found: Lines) -> NDArray[np.float64]:
    count = np.diff(found.offsets)
    text = np.repeat(np.arange(len(texts), dtype=np.uint64), count)
    keys = texts.words.hash_spans(found.starts, found.ends) + text * _SPREAD
    again = first_places(keys) != np.arange(keys.size)
    sizes = found.ends - found.starts
    characters = ratio(texts.sums(sizes * again, found.offsets), texts.sums(sizes, found.offsets))
    return np.stack([ratio(texts.sums(again, found.offsets), count), characters], axis=1)
