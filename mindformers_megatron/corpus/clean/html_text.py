r"""All the text of a page, line by line: its tags are taken off, nothing else.

The parser knows the text but not the lines. So the bytes are prepared for it, by arrays: a mark is put before each tag
that begins or ends a line, a cell or a paragraph. In the text that the parser returns, runs of marks and white space
become line ends.

A mark must be white space to HTML, or it would be thrown out of tables. It is a form feed behind none to four tabs,
which say what it stands for. No other form feeds come through.
"""

import functools
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from mindformers_megatron.corpus.clean.tags import CELL, LINE, PARAGRAPH, PREFORMATTED, SILENT
from mindformers_megatron.corpus.optional import needed

Codes = NDArray[np.uint8]

_TAB, _LF, _FF, _SPACE, _SLASH, _LESS = 0x09, 0x0A, 0x0C, 0x20, 0x2F, 0x3C
# What a mark stands for is the number of its tabs.
_CELL, _LINE, _PARAGRAPH, _OPEN, _CLOSE = range(5)
_NOTHING = 255

# One selector for all: the tree is searched once.
_SILENT = ",".join(sorted(SILENT))
_PAD = b" " * 16
_PADDED = 4
_LOWER = np.uint64(0x2020202020202020)
_LETTERS = np.uint64(0x4040404040404040)
_ONE, _SIX, _SHIFT = np.uint64(1), np.uint64(6), np.uint64(54)
_H, _TWO_BYTES = np.uint64(ord("h")), np.uint64(0xFFFF)


def text_of_page(html: str) -> str:
    """Returns the text of a page or a piece of one, without scripts, styles and the head.

    Between paragraphs stands a blank line; a row of a table is a line, its cells divided by tabs. Outside of ``<pre>``
    white space is folded, as HTML means it; what is in ``<pre>`` stays as it is.
    """
    parse = needed("selectolax.lexbor", "taking tags off").LexborHTMLParser
    body = parse(_mark(html.encode())).body
    if body is None:
        return ""
    body.strip_tags([_SILENT], recursive=True)
    return _unmark(body.text().encode()).decode()[1:].strip("\n").rstrip()


def _mark(html: bytes) -> bytes:
    """Puts a mark before each tag that has one, and makes white space outside of ``<pre>`` spaces."""
    raw = np.frombuffer(html, np.uint8)
    tags = np.flatnonzero(raw == _LESS)
    kinds = _kinds(html, tags)
    marked = kinds != _NOTHING
    tags, kinds = tags[marked], kinds[marked]
    codes = np.maximum(raw, _SPACE)
    for start, end in _ranges(codes.size, tags[kinds == _OPEN], tags[kinds == _CLOSE]):
        codes[start:end] = np.where(raw[start:end] == _FF, _SPACE, raw[start:end])
    sizes = kinds + 1
    marks = np.full(int(sizes.sum(dtype=np.int64)), _TAB, np.uint8)
    marks[np.cumsum(sizes, dtype=np.int64) - 1] = _FF
    return np.insert(codes, np.repeat(tags, sizes), marks).tobytes()


def _unmark(text: bytes) -> bytes:
    """Replaces each run of marks and spaces by what the strongest of them stands for, or by one space."""
    codes = np.frombuffer(_PAD[:_PADDED] + text, np.uint8).copy()
    feeds = np.flatnonzero(codes == _FF)
    tabs = np.zeros(feeds.size, np.intp)
    counting = np.ones(feeds.size, np.bool_)
    for back in range(1, 5):
        counting &= codes[feeds - back] == _TAB
        tabs += counting
    space = codes == _SPACE
    opens, closes = feeds[tabs == _OPEN], feeds[tabs == _CLOSE]
    # The parser drops white space before the first element, and a mark with it.
    if closes.size and (not opens.size or closes[0] < opens[0]):
        opens = np.append(_PADDED - 1, opens)
    for start, end in _ranges(codes.size, opens, closes):
        space[start:end] = False
    for back in range(5):
        space[feeds[tabs >= back] - back] = True
    # A space alone, as between words, is what it is.
    alone = space & (codes == _SPACE)
    alone[1:] &= ~space[:-1]
    alone[:-1] &= ~space[1:]
    keep = ~space | alone
    edges = np.flatnonzero(keep[1:] != keep[:-1]) + 1
    # Text begins with spaces that were put there, so the even edges end runs.
    starts = np.append(0, edges[1::2])
    keep[starts] = True
    codes[starts] = _SPACE
    if feeds.size:
        runs = np.searchsorted(starts, feeds, "right") - 1
        first = np.flatnonzero(np.diff(runs, prepend=-1))
        strongest = np.maximum.reduceat(tabs, first)
        places = starts[runs[first]]
        codes[places] = np.where(strongest == _CELL, _TAB, _LF)
        # A mark of two tabs or more leaves room for two line ends.
        double = places[strongest >= _PARAGRAPH] + 1
        codes[double], keep[double] = _LF, True
    return codes[keep].tobytes()


def _ranges(size: int, opens: NDArray[np.intp], closes: NDArray[np.intp]) -> Iterator[tuple[int, int]]:
    """From behind each opening mark up to the next closing one, or the end."""
    ends = np.append(closes, size)[np.searchsorted(closes, opens)]
    yield from zip((opens + 1).tolist(), ends.tolist(), strict=True)


def _kinds(html: bytes, tags: NDArray[np.intp]) -> Codes:
    """What the mark before each ``<`` is to be, ``_NOTHING`` for none."""
    padded = html + _PAD
    starts = tags + 1
    closing = np.frombuffer(padded, np.uint8)[starts] == _SLASH
    starts += closing
    # Eight bytes from each name on, in lower case. Bit 6 is set in letters, so the first byte without it ends the name.
    raw = np.ndarray((len(html) + 8,), "<u8", padded, strides=(1,))[starts]
    other = ~raw & _LETTERS
    raw |= _LOWER
    names = raw & (((other & (~other + _ONE)) >> _SIX) - _ONE)
    # A digit ends a name too early: h1 to h6.
    names = np.where(names == _H, raw & _TWO_BYTES, names)
    keys, opening_kinds, closing_kinds, multiplier = _table()
    slots = (names * multiplier) >> _SHIFT
    kinds = np.where(closing, closing_kinds[slots], opening_kinds[slots])
    return np.where(keys[slots] == names, kinds, np.uint8(_NOTHING))


@functools.cache
def _table() -> tuple[NDArray[np.uint64], Codes, Codes, np.uint64]:
    """A hash table without collisions: (first eight bytes of names, marks before them, marks before their ends)."""
    kinds = {
        **dict.fromkeys(LINE, (_LINE, _NOTHING)),
        **dict.fromkeys(["div", "dt", "dd", "address", "details", "summary"], (_LINE, _LINE)),
        **dict.fromkeys(CELL, (_CELL, _NOTHING)),
        **dict.fromkeys(PARAGRAPH, (_PARAGRAPH, _PARAGRAPH)),
        **dict.fromkeys(PREFORMATTED, (_OPEN, _CLOSE)),
    }
    names = np.array([int.from_bytes(name.encode()[:8], "little") for name in kinds], np.uint64)
    factor = 0x9E3779B97F4A7C15
    while True:
        slots = (names * np.uint64(factor)) >> _SHIFT
        if np.unique(slots).size == names.size:
            break
        factor = factor * 0xBF58476D1CE4E5B9 % 2**64
    keys = np.zeros(1 << 10, np.uint64)
    opening, closing = np.full((2, 1 << 10), _NOTHING, np.uint8)
    keys[slots] = names
    opening[slots], closing[slots] = np.array(list(kinds.values()), np.uint8).T
    return keys, opening, closing, np.uint64(factor)
