"""Which document indices are wrong where they do not ascend.

A document index is the sequence at which a document begins, so that they never descend. Where they do, those are
believed that remain if as few as possible are left out: a longest sequence that does not descend (Fredman, *On
computing the length of longest increasing subsequences*, 1975), looked for around the place only.
"""

from bisect import bisect_right
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

# Entries looked at on both sides of what is wrong: 128 KiB.
_MARGIN = 1 << 14
# An index in which more descend was not damaged, it is something else.
MOST_DESCENTS = 100_000

Read = Callable[[int, int], NDArray[np.int64]]


def suspects(documents: NDArray[np.int64], first: int, count: int, num_sequences: int) -> NDArray[np.int64]:
    """Places around which something is wrong.

    Args:
        documents: int64[N]: neighbouring document indices, and one more behind them unless they are the last.
        first: number of the first of them.
        count: of all document indices.
        num_sequences: which the last of all must be, while the first must be 0.

    Returns:
        int64, ascending: entries that are outside of the index, or greater than the one behind them.
    """
    wrong = (documents < 0) | (documents > num_sequences)
    wrong[:-1] |= documents[:-1] > documents[1:]
    if first == 0:
        wrong[0] |= documents[0] != 0
    if first + documents.size == count:
        wrong[-1] |= documents[-1] != num_sequences
    return np.flatnonzero(wrong) + first


def wrong_boundaries(places: NDArray[np.int64], read: Read, count: int, num_sequences: int) -> NDArray[np.int64]:
    """Finds the document indices that are wrong.

    Args:
        places: from ``suspects``, of the whole index, at most ``MOST_DESCENTS``.
        read: the document indices ``[begin, end)``.
        count: of all document indices.
        num_sequences: which the last of them must be.

    Returns:
        int64, ascending.
    """
    found = []
    for begin, end in _windows(places, count):
        values = read(begin, end).tolist()
        low = [0] if begin == 0 else []
        high = [num_sequences] if end == count else []
        kept = _longest_ascent([*low, *values, *high], num_sequences)
        found.append(np.flatnonzero(~kept[len(low) : len(low) + len(values)]) + begin)
    wrong = np.concatenate(found) if found else np.empty(0, np.int64)
    # The first is 0 and the last the number of sequences, whatever the others are.
    ends = [place for place, value in ((0, 0), (count - 1, num_sequences)) if int(read(place, place + 1)[0]) != value]
    return np.union1d(wrong, np.array(ends, np.int64))


def _windows(places: NDArray[np.int64], count: int) -> list[tuple[int, int]]:
    windows: list[tuple[int, int]] = []
    for place in places.tolist():
        begin, end = max(place - _MARGIN, 0), min(place + 2 + _MARGIN, count)
        if windows and begin <= windows[-1][1]:
            windows[-1] = (windows[-1][0], end)
        else:
            windows.append((begin, end))
    return windows


def _longest_ascent(values: list[int], limit: int) -> NDArray[np.bool_]:
    """Which values of ``[0, limit]`` to keep so that none is below the one before, and as many as possible are kept."""
    # Of all ascents of a length, the one with the smallest last value, and where that is.
    tails: list[int] = []
    at: list[int] = []
    before = [-1] * len(values)
    for place, value in enumerate(values):
        if not 0 <= value <= limit:
            continue
        length = bisect_right(tails, value)
        before[place] = at[length - 1] if length else -1
        tails[length : length + 1], at[length : length + 1] = [value], [place]
    kept = np.zeros(len(values), bool)
    place = at[-1] if at else -1
    while place >= 0:
        kept[place] = True
        place = before[place]
    return kept
