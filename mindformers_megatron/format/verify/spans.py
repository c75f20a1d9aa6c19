"""Sets of numbers as ranges: int64[K, 2], each ``[begin, end)``, ascending, none of them empty or touching another."""

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

Spans = NDArray[np.int64]


def no_spans() -> Spans:
    """The empty set."""
    return np.empty((0, 2), np.int64)


def spans_of(numbers: NDArray[np.int64]) -> Spans:
    """The set of these numbers.

    Args:
        numbers: int64[N], ascending; a number may be there more than once.
    """
    if not numbers.size:
        return no_spans()
    breaks = np.flatnonzero(np.diff(numbers) > 1)
    begins = numbers[np.concatenate(([0], breaks + 1))]
    ends = numbers[np.concatenate((breaks, [numbers.size - 1]))] + 1
    return np.stack((begins, ends), 1)


def spans_of_mask(mask: NDArray[np.bool_], first: int = 0) -> Spans:
    """The set of ``first + i`` for all i at which the mask is true."""
    edges = np.flatnonzero(np.diff(np.concatenate(([False], mask, [False])).view(np.int8)))
    return edges.reshape(-1, 2).astype(np.int64) + first


def union(parts: Iterable[Spans]) -> Spans:
    """What is in one of the sets at least."""
    ranges = np.concatenate([no_spans(), *parts])
    if len(ranges) < 2:
        return ranges
    ranges = ranges[ranges[:, 0].argsort(kind="stable")]
    reach = np.maximum.accumulate(ranges[:, 1])
    fresh = np.concatenate(([True], ranges[1:, 0] > reach[:-1]))
    last = np.append(np.flatnonzero(fresh)[1:] - 1, len(ranges) - 1)
    return np.stack((ranges[fresh, 0], reach[last]), 1)


def complement(spans: Spans, begin: int, end: int) -> Spans:
    """What of ``[begin, end)`` is not in the set."""
    inside = within(spans, begin, end)
    edges: Spans = np.concatenate(([begin], inside.ravel(), [end])).reshape(-1, 2)
    return edges[np.flatnonzero(edges[:, 0] < edges[:, 1])]


def within(spans: Spans, begin: int, end: int) -> Spans:
    """What of the set is in ``[begin, end)``."""
    low, high = np.searchsorted(spans[:, 1], begin, "right"), np.searchsorted(spans[:, 0], end)
    clipped: Spans = np.clip(spans[low:high], begin, end)
    return clipped


def size_of(spans: Spans) -> int:
    """How many numbers there are."""
    return int((spans[:, 1] - spans[:, 0]).sum())


def numbers_of(spans: Spans) -> NDArray[np.int64]:
    """int64[N], ascending: all of them."""
    sizes = spans[:, 1] - spans[:, 0]
    starts = spans[:, 0] - np.concatenate(([0], np.cumsum(sizes)[:-1])) if sizes.size else sizes
    return np.add(np.repeat(starts, sizes), np.arange(size_of(spans)), dtype=np.int64)
