"""Texts with code points that Unicode has not given out yet.

Libraries that sort characters into letters, digits and the rest by different versions of Unicode differ on these, and
versions of one library do. So such texts are left to the library that defines the ids.
"""

import unicodedata
from collections.abc import Sequence
from functools import cache

import numpy as np
from numpy.typing import NDArray

_CHUNK_CHARACTERS = 1 << 20
_HIGH_SURROGATES = range(0xD800, 0xDC00)
# In every version of Unicode since 1.1, all code points before this one are assigned.
_FIRST_UNASSIGNED = 0x378


@cache
def _suspect_units() -> NDArray[np.bool_]:
    """For each unit of UTF-16: it is unassigned, or begins a code point that may be."""
    # Not for all 1.1 million code points: few texts have any beyond the first 65,536.
    of_units = np.fromiter(map(_is_unassigned, range(0x10000)), bool, 0x10000)
    of_units[_HIGH_SURROGATES.start : _HIGH_SURROGATES.stop] = True
    return of_units


def _is_unassigned(code: int) -> bool:
    return unicodedata.category(chr(code)) == "Cn"


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
    units = np.frombuffer(text.encode("utf-16-le", "surrogatepass"), "<u2")
    # Most units of most texts need no look into the table.
    places = np.flatnonzero(units >= _FIRST_UNASSIGNED)
    places = places[_suspect_units().take(units.take(places))]
    if not places.size:
        return False
    first = units[places].astype(np.int64)
    second = units[np.minimum(places + 1, units.size - 1)].astype(np.int64)
    is_pair = (first >= _HIGH_SURROGATES.start) & (first < _HIGH_SURROGATES.stop)
    pairs = 0x10000 + ((first - _HIGH_SURROGATES.start) << 10) + ((second - _HIGH_SURROGATES.stop) & 0x3FF)
    return any(map(_is_unassigned, np.unique(np.where(is_pair, pairs, first)).tolist()))
