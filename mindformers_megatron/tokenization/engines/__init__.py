"""Engines: what turns texts into ids."""

from collections.abc import Sequence
from itertools import chain
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

IdArray = NDArray[np.int32]
Encoded = tuple[IdArray, NDArray[np.int64]]


class Engine(Protocol):
    """Turns texts into ids. Threads may call one engine at once."""

    @property
    def name(self) -> str:
        """The engine, as it stands in the metadata."""

    @property
    def version(self) -> str:
        """Version of the library behind it."""

    def encode(self, texts: Sequence[str]) -> Encoded:
        """Encodes texts.

        Returns:
            The ids of all texts, int32[N], and how many each has, int64[len(texts)].
        """


def flatten(lists: Sequence[Sequence[int]]) -> Encoded:
    """Lists of ids → (all ids in one array, the length of each list)."""
    lengths = np.fromiter(map(len, lists), np.int64, len(lists))
    return np.fromiter(chain.from_iterable(lists), np.int32, int(lengths.sum())), lengths


def surround(ids: IdArray, lengths: NDArray[np.int64], before: IdArray, after: IdArray) -> Encoded:
    """Puts ids before and behind each text.

    Args:
        ids: of all texts, int32[N].
        lengths: ids of each text, int64[T] with sum N.
        before: put before each of them.
        after: put behind each of them.
    """
    added = before.size + after.size
    if not added:
        return ids, lengths
    longer = lengths + added
    result = np.empty(int(longer.sum()), np.int32)
    own = np.ones(result.size, bool)
    stops = np.cumsum(longer)
    for place, id_ in enumerate(before):
        result[(positions := stops - longer + place)] = id_
        own[positions] = False
    for place, id_ in enumerate(after[::-1]):
        result[(positions := stops - 1 - place)] = id_
        own[positions] = False
    result[own] = ids
    return result, longer


def interleave(first: Encoded, second: Encoded, is_second: NDArray[np.bool_]) -> Encoded:
    """Puts texts that were encoded apart back in order.

    Args:
        first: some of the texts, encoded.
        second: the others.
        is_second: for each text in order whether it is among the others, bool[T].
    """
    lengths = np.empty(is_second.size, np.int64)
    lengths[~is_second], lengths[is_second] = first[1], second[1]
    ids = np.empty(int(lengths.sum()), np.int32)
    of_second = np.repeat(is_second, lengths)
    ids[~of_second], ids[of_second] = first[0], second[0]
    return ids, lengths
