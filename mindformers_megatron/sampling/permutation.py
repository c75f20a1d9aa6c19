"""Permutations of [0, n) that are computed, not stored: position → element in O(1), for any n and any key.

A Feistel network over the smallest pair of half-words whose product covers n, with cycle walking: an output outside
[0, n) is fed in again until it falls inside (Black and Rogaway, "Ciphers with arbitrary finite domains", 2002). The
domain is less than twice n, so two evaluations on average. Below ``SMALL`` elements a half-word has too few bits to
mix well, and a table is cheap: there the order is that of hashed ranks.
"""

from functools import lru_cache

import numpy as np
import numpy.typing as npt

from mindformers_megatron.sampling.keys import U64, mix, words_at

SMALL = 4096
_ROUNDS = 6

I64 = npt.NDArray[np.int64]


@lru_cache(maxsize=64)
def _table(size: int, key: int) -> I64:
    ranks = words_at(np.array(key, dtype=np.uint64), np.arange(size, dtype=np.uint64))
    return np.argsort(ranks, kind="stable")


def _feistel(values: U64, keys: U64, high_bits: int, low_bits: int) -> U64:
    """One pass over the domain of ``high_bits + low_bits`` bits; the halves swap sides, and widths, every round."""
    left_bits, right_bits = high_bits, low_bits
    left, right = values >> np.uint64(low_bits), values & np.uint64((1 << low_bits) - 1)
    for round_number in range(_ROUNDS):
        noise = mix(right ^ mix(keys + np.uint64(round_number))) & np.uint64((1 << left_bits) - 1)
        left, right = right, left ^ noise
        left_bits, right_bits = right_bits, left_bits
    return (left << np.uint64(right_bits)) | right


def permute(positions: I64, size: int, keys: U64) -> I64:
    """Returns the element at each position of the permutation of [0, size) that its key selects.

    Args:
        positions: int64[B], each in [0, size).
        size: How many elements; up to 2**62.
        keys: uint64[B], one key for each position, so that positions of several epochs go in one call.

    Returns:
        int64[B]. For a fixed key the map is a bijection of [0, size).
    """
    if size == 1:
        return np.zeros_like(positions)
    if size <= SMALL:
        elements = np.empty_like(positions)
        for key in np.unique(keys):
            chosen = keys == key
            elements[chosen] = _table(size, int(key))[positions[chosen]]
        return elements
    bits = (size - 1).bit_length()
    high_bits, low_bits = bits // 2, bits - bits // 2
    values = positions.astype(np.uint64)
    limit = np.uint64(size)
    values = _feistel(values, keys, high_bits, low_bits)
    outside = np.flatnonzero(values >= limit)
    while outside.size:
        values[outside] = _feistel(values[outside], keys[outside], high_bits, low_bits)
        outside = outside[values[outside] >= limit]
    return values.astype(np.int64)
