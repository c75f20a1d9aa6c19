"""Texts with code points that Unicode has not given out yet.

Libraries that sort characters into letters, digits and the rest by different versions of Unicode differ on these, and
versions of one library do. So such texts are left to the library that defines the ids.
"""

import sys
import unicodedata
from collections.abc import Sequence
from functools import cache

import numpy as np
from numpy.typing import NDArray

_CHUNK_CHARACTERS = 1 << 20
_HIGH_SURROGATES = range(0xD800, 0xDC00)


@cache
def _tables() -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """(for each code point: it is unassigned, for each unit of UTF-16: it is, or begins one that may be)."""
    codes = map(chr, range(sys.maxunicode + 1))
    of_codes = np.fromiter((unicodedata.category(code) == "Cn" for code in codes), bool, sys.maxunicode + 1)
    of_units = of_codes[:0x10000].copy()
    beyond = of_codes[0x10000:].reshape(len(_HIGH_SURROGATES), -1)
    of_units[_HIGH_SURROGATES.start : _HIGH_SURROGATES.stop] = beyond.any(axis=1)
    return of_codes, of_units


def has_unassigned(texts: Sequence[str]) -> NDArray[np.bool_]:
    """Which texts hold an unassigned code point (category Cn in the Unicode of this Python), bool[len(texts)]."""
    found = np.zeros(len(texts), bool)
    suspects = [place for place, text in enumerate(texts) if not text.isascii()]
    if not suspects:
        return found
    joined = "".join(texts[place] for place in suspects)
    # A look into a table of 64 KB for each character of all of them; then, rarely, a closer look at one.
    if any(_search(joined[start : start + _CHUNK_CHARACTERS]) for start in range(0, len(joined), _CHUNK_CHARACTERS)):
        for place in suspects:
            found[place] = _search(texts[place])
    return found


def _search(text: str) -> bool:
    of_codes, of_units = _tables()
    units = np.frombuffer(text.encode("utf-16-le", "surrogatepass"), "<u2")
    places = np.flatnonzero(of_units[units])
    if not places.size:
        return False
    first = units[places].astype(np.int64)
    second = units[np.minimum(places + 1, units.size - 1)].astype(np.int64)
    is_pair = (first >= _HIGH_SURROGATES.start) & (first < _HIGH_SURROGATES.stop)
    pairs = 0x10000 + ((first - _HIGH_SURROGATES.start) << 10) + ((second - _HIGH_SURROGATES.stop) & 0x3FF)
    return bool(of_codes[np.where(is_pair, pairs, first)].any())
