r"""Where the tags of pages are, and what each stands for in their text. By arrays, for all tags at once.

This is the tokenizer of the HTML standard (section 13.2.5) as far as text needs it: what is a tag and what a mere
``<``, the ends of tags that have a ``>`` in a quoted value, comments, and elements whose content is no text. A tree is
not built: it would only tell where a forgotten end tag belongs.
"""

import functools
import re
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mindformers_megatron.corpus.clean.tags import CELL, LINE, PARAGRAPH, PREFORMATTED, SILENT, UNSEEN

Bytes = NDArray[np.uint8]
Places = NDArray[np.intp]

# What stands in the place of a tag, the stronger the greater.
NOTHING, CELL_END, LINE_END, PARAGRAPH_END, PREFORMATTED_BEGIN, PREFORMATTED_END, _SILENT = range(7)

_LESS, _GREATER, _QUOTE, _TICK, _SLASH, _EXCLAMATION, _QUESTION, _LF = b"<>\"'/!?\n"
_A, _LETTERS = ord("a"), 26
# Quotes are counted in the lower half of a number, ticks in the upper.
_WEIGHTS = np.zeros(128, np.int64)
_WEIGHTS[[_QUOTE, _TICK]] = 1, 1 << 32
_LOWER_HALF, _ODD = (1 << 32) - 1, 1 | 1 << 32

_NO_TEXT = SILENT | UNSEEN
_NAME = re.compile(rb"<([a-zA-Z]+)(?=[\s/>])")
# Up to the ``>`` that is in no value, or to the end. It cannot fail, and so never goes back.
_REST = re.compile(rb"""[^>=]*(?:=\s*(?:"[^"]*(?:"|\Z)|'[^']*(?:'|\Z))?[^>=]*)*""")

_NAME_BYTES = 8
_PAD = b" " * 16
_LOWER_CASE = np.uint64(0x2020202020202020)
_BIT_6 = np.uint64(0x4040404040404040)
_ONE, _SIX, _SHIFT = np.uint64(1), np.uint64(6), np.uint64(54)
_H, _TWO_BYTES = np.uint64(ord("h")), np.uint64(0xFFFF)


@dataclass(frozen=True, slots=True)
class Tags:
    """Tags, comments, and elements whose content is no text, in order.

    Attributes:
        starts: intp[T], where each begins.
        ends: intp[T], where each ends (exclusive); no two overlap.
        kinds: uint8[T], what each stands for.
    """

    starts: Places
    ends: Places
    kinds: Bytes


def find_tags(pages: bytes, borders: Places) -> Tags:
    """Finds the tags of pages.

    Args:
        pages: UTF-8, one page behind the other, each with a byte before and behind it that is no part of it.
        borders: intp[P+1], where these bytes are. No tag reaches over one.
    """
    raw = np.frombuffer(pages, np.uint8)
    chosen = (raw & 0xFD) == _LESS  # and ``>``, from which it differs in this bit
    chosen |= raw == _QUOTE
    chosen |= raw == _TICK
    signs = np.flatnonzero(chosen)
    which = raw[signs]
    opening = np.flatnonzero(which == _LESS)
    following = raw[signs[opening] + 1]
    closing = following == _SLASH
    other = (following == _EXCLAMATION) | (following == _QUESTION)
    is_tag = closing | other | ((following | 0x20) - np.uint8(_A) < _LETTERS)
    opening, closing, other = opening[is_tag], closing[is_tag], other[is_tag]

    # A tag ends at the next ``>``; those that have the same one are within the first of them.
    greater = which == _GREATER
    behind = np.append(np.flatnonzero(greater), signs.size)[np.cumsum(greater)[opening]]
    starts = signs[opening]
    ends = np.minimum(np.append(signs, raw.size - 1)[behind], borders[np.searchsorted(borders, starts)])
    outer = np.diff(ends, prepend=-1) > 0
    opening, closing, other, behind = opening[outer], closing[outer], other[outer], behind[outer]
    starts, ends = starts[outer], ends[outer]
    kinds = _kinds(pages, starts, closing)

    quotes = np.append(0, np.cumsum(_WEIGHTS[which]))
    quotes = quotes[behind] - quotes[opening]
    # The ``>`` may be in a value.
    doubtful = (quotes & _ODD) > 0
    doubtful |= (quotes > _LOWER_HALF) & ((quotes & _LOWER_HALF) > 0)
    special = np.flatnonzero(other | doubtful | (kinds == _SILENT))
    if special.size:
        kept = _settle(pages, borders, starts, ends, special)
        starts, ends, kinds = starts[kept], ends[kept], kinds[kept]
    closed = raw[ends] == _GREATER
    kinds[~closed | (kinds == _SILENT)] = NOTHING
    ends += closed
    # A line end right behind ``<pre>`` is not part of the text.
    ends += (kinds == PREFORMATTED_BEGIN) & (raw[ends] == _LF)
    return Tags(starts, ends, kinds)


def _settle(pages: bytes, borders: Places, starts: Places, ends: Places, special: Places) -> NDArray[np.bool_]:
    """Sets the ends of what does not end at the next ``>``; returns which tags are not within any of these."""
    settled: list[int] = []
    end = 0
    limits = borders[np.searchsorted(borders, starts[special])].tolist()
    for place, start, limit in zip(special.tolist(), starts[special].tolist(), limits, strict=True):
        if start >= end:
            end = _end_of(pages, start, int(ends[place]), limit)
            ends[place] = end
            settled.append(place)
    outside = np.ones(starts.size, np.bool_)
    for place, behind in zip(settled, np.searchsorted(starts, ends[settled]).tolist(), strict=True):
        outside[place + 1 : behind] = False
    return outside


def _end_of(pages: bytes, start: int, end: int, limit: int) -> int:
    """The ``>`` with which it ends, or the limit."""
    if pages.startswith(b"<!--", start):
        # ``<!-->`` is a whole comment.
        found = pages.find(b"-->", start + 2, limit)
        return limit if found < 0 else found + 2
    if pages[start + 1] in b"!?":
        return end
    name = _NAME.match(pages, start, limit)
    if name and name[1].lower().decode() in _NO_TEXT:
        last = _end_tag(name[1].lower()).search(pages, start, limit)
        return last.end() if last else limit
    rest = _REST.match(pages, start, limit)
    return rest.end() if rest else end


@functools.cache
def _end_tag(name: bytes) -> re.Pattern[bytes]:
    return re.compile(rb"</(?i:" + name + rb")(?=[\s/>])[^>]*")


def _kinds(pages: bytes, starts: Places, closing: NDArray[np.bool_]) -> Bytes:
    """What stands in the place of each tag, by its name."""
    # Eight bytes from each name on, in lower case. Bit 6 is set in letters, so the first byte without it ends the name.
    size = len(pages) + _NAME_BYTES
    raw = np.ndarray((size,), "<u8", pages + _PAD, strides=(1,))[starts + 1 + closing]
    other = ~raw & _BIT_6
    raw |= _LOWER_CASE
    names = raw & (((other & (~other + _ONE)) >> _SIX) - _ONE)
    # A digit ends a name too early: h1 to h6.
    names = np.where(names == _H, raw & _TWO_BYTES, names)
    keys, kinds, multiplier = _table()
    slots = (names * multiplier) >> _SHIFT
    return np.where(keys[slots] == names, kinds[(slots << _ONE) + closing], np.uint8(NOTHING))


@functools.cache
def _table() -> tuple[NDArray[np.uint64], Bytes, np.uint64]:
    """A hash table without collisions: (first eight bytes of names, what they stand for and their end tags do)."""
    kinds = {
        **dict.fromkeys(LINE, (LINE_END, NOTHING)),
        **dict.fromkeys(["div", "dt", "dd", "address", "details", "summary"], (LINE_END, LINE_END)),
        **dict.fromkeys(CELL, (CELL_END, NOTHING)),
        **dict.fromkeys(PARAGRAPH, (PARAGRAPH_END, PARAGRAPH_END)),
        **dict.fromkeys(PREFORMATTED, (PREFORMATTED_BEGIN, PREFORMATTED_END)),
        **dict.fromkeys(_NO_TEXT, (_SILENT, NOTHING)),
    }
    names = np.array([int.from_bytes(name.encode()[:_NAME_BYTES], "little") for name in kinds], np.uint64)
    factor = 0x9E3779B97F4A7C15
    while True:
        slots = (names * np.uint64(factor)) >> _SHIFT
        if np.unique(slots).size == names.size:
            break
        factor = factor * 0xBF58476D1CE4E5B9 % 2**64
    keys = np.zeros(1 << 10, np.uint64)
    both = np.zeros((1 << 10, 2), np.uint8)
    keys[slots] = names
    both[slots] = np.array(list(kinds.values()), np.uint8)
    return keys, both.ravel(), np.uint64(factor)
