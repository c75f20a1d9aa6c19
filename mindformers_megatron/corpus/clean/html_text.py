"""All the text of pages, line by line: their tags are taken off, nothing else.

Where a tag ends a line, a cell or a paragraph, a mark is left in its place. In what remains, runs of marks and white
space become line ends.
"""

import functools
import html
import re
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from mindformers_megatron.corpus.clean.html_tags import (
    CELL_END,
    NOTHING,
    PARAGRAPH_END,
    PREFORMATTED_BEGIN,
    PREFORMATTED_END,
    Bytes,
    Places,
    Tags,
    find_tags,
)

# Between pages, and in the place of tags, with the number of what they stand for added. None is a byte of UTF-8.
_BORDER, _MARK = b"\xff", np.uint8(0xF8)
_TAB, _LF, _SPACE = b"\t\n "
# In ``<pre>``, of control characters these two stay; elsewhere all are spaces.
_PREFORMATTED = bytes(code if code > _SPACE or code in (_TAB, _LF) else _SPACE for code in range(256))
# All that ``html.unescape`` looks up; most are the same few.
_REFERENCE = re.compile(r"&(?:#[0-9]+;?|#[xX][0-9a-fA-F]+;?|[^\t\n\f <&#;]{1,32};?)")

_EACH_BYTE, _TOP_BYTE, _LOWEST_BIT = np.uint64(0x0101010101010101), np.uint64(56), np.uint64(1)


def text_of_page(page: str) -> str:
    """The text of one page; see ``texts_of_pages``."""
    return texts_of_pages([page])[0]


def texts_of_pages(pages: Sequence[str]) -> list[str]:
    """Returns the texts of pages or pieces of such, without scripts, styles and the head.

    Between paragraphs stands a blank line; a row of a table is a line, its cells divided by tabs. Outside of ``<pre>``
    white space is folded, as HTML means it; what is in ``<pre>`` stays as it is. No text depends on the others; some
    hundred thousand characters at a time are fastest.
    """
    joined = b"".join([_BORDER + page.encode() for page in pages]) + _BORDER
    if b"\r" in joined:
        joined = joined.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    raw = np.frombuffer(joined, np.uint8)
    borders = np.flatnonzero(raw == _BORDER[0])
    texts = _fold(_with_marks(raw.copy(), find_tags(joined, borders))).tobytes().split(_BORDER)[1:-1]
    # What a page begins with may be a fold, or lines and what ``<pre>`` begins with.
    return [_resolved(text.decode()).lstrip(" \t").strip("\n").rstrip() for text in texts]


def _resolved(text: str) -> str:
    """Replaces character references such as ``&amp;``."""
    return _REFERENCE.sub(lambda found: _character(found[0]), text) if "&" in text else text


@functools.lru_cache(maxsize=4096)
def _character(reference: str) -> str:
    return html.unescape(reference)


def _with_marks(codes: Bytes, tags: Tags) -> Bytes:
    """The bytes that are in no tag, and a mark for each tag that stands for something.

    From a paragraph on a mark is two bytes, to leave room for two line ends. No tag is shorter than three.
    """
    starts = tags.starts.copy()
    for least in (NOTHING + 1, PARAGRAPH_END):
        marked = np.flatnonzero(tags.kinds >= least)
        codes[starts[marked]] = tags.kinds[marked] + _MARK
        starts[marked] += 1
    return codes[_outside(codes.size, starts, tags.ends)]


def _outside(size: int, starts: Places, ends: Places) -> NDArray[np.bool_]:
    """Which places are in none of some ranges, bool[size]. The ranges do not overlap.

    They are those with an even number of edges up to them; these are added up eight bytes at a time.
    """
    words = np.zeros(size // 8 + 1, "<u8")
    edges = words.view(np.uint8)
    edges[starts] ^= 1
    edges[ends] ^= 1
    words *= _EACH_BYTE
    before = np.cumsum(words >> _TOP_BYTE) & _LOWEST_BIT
    words[1:] += before[:-1] * _EACH_BYTE
    return (~words & _EACH_BYTE).view(np.bool_)[:size]


def _fold(codes: Bytes) -> Bytes:
    """Replaces each run of marks and spaces by what the strongest of them stands for, or by one space."""
    kinds = codes - _MARK
    marks = np.flatnonzero(kinds - np.uint8(1) < PREFORMATTED_END)
    kinds = kinds[marks]
    text = np.maximum(codes, _SPACE)
    space = text == _SPACE
    closes = np.append(marks[kinds == PREFORMATTED_END], np.flatnonzero(codes == _BORDER[0]))
    for start, end in _ranges(marks[kinds == PREFORMATTED_BEGIN][1::2] + 1, np.sort(closes)):
        text[start:end] = np.frombuffer(codes[start:end].tobytes().translate(_PREFORMATTED), np.uint8)
        space[start:end] = False
    alone = space.copy()
    space[marks] = True
    # A space alone, as between words, is what it is.
    keep = ~space
    alone[1:] &= keep[:-1]
    alone[:-1] &= keep[1:]
    keep |= alone
    # Text begins and ends with a border, so every other edge begins a run.
    starts = np.flatnonzero(keep[1:] != keep[:-1])[::2] + 1
    keep[starts] = True
    text[starts] = _SPACE
    runs = np.searchsorted(starts, marks, "right") - 1
    first = np.flatnonzero(np.diff(runs, prepend=-1))
    if first.size:
        strongest = np.maximum.reduceat(kinds, first)
        places = starts[runs[first]]
        text[places] = np.where(strongest == CELL_END, _TAB, _LF)
        double = places[strongest >= PARAGRAPH_END] + 1
        text[double], keep[double] = _LF, True
    return text[keep]


def _ranges(starts: Places, closes: Places) -> Iterator[tuple[int, int]]:
    """From each start up to the next of the closing places."""
    yield from zip(starts.tolist(), closes[np.searchsorted(closes, starts)].tolist(), strict=True)
