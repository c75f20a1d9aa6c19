"""Permutations of [0, n) that are computed, not stored: position → element in O(1), for any n and any key.

A Feistel network over two digits in bases of about √n, with cycle walking: an output outside [0, n) is fed in again
until it falls inside (Black and Rogaway, "Ciphers with arbitrary finite domains", 2002). The domain has less than √n
values too many, so nearly always the first output will do. Of a few elements, whose digits would be too small to mix
well, each goes to the rank of its hash among the hashes of all.
"""

import numpy as np
import numpy.typing as npt

from mindformers_megatron.sampling.keys import U64, mix, words_at

FEW = 128
# Below seven, the pairs of elements that follow each other in small permutations are visibly uneven (chi-square tests).
_ROUNDS = 7
_ONE, _S32 = np.uint64(1), np.uint64(32)
_M1, _M2 = np.uint64(0xD6E8FEB86659FD93), np.uint64(0xCF1BBCDCB7A56463)

I64 = npt.NDArray[np.int64]


def permute(positions: I64, sizes: I64 | int, keys: U64) -> I64:
    """Returns the element at each position of the permutation that its size and its key select.

    Args:
        positions: int64[B], each in [0, size).
        sizes: int64[B] or one number, how many elements each permutation has; up to 2**62.
        keys: uint64[B], the key of each permutation, so that positions of several epochs go in one call.

    Returns:
        int64[B]. For a fixed size and key the map is a bijection of [0, size).
    """
    sizes = np.broadcast_to(np.asarray(sizes, dtype=np.int64), positions.shape)
    few = sizes <= FEW
    if few.all():
        return _by_rank(positions, sizes, keys)
    if not few.any():
        return _by_feistel(positions, sizes, keys)
    elements = np.empty_like(positions)
    for chosen, method in ((few, _by_rank), (~few, _by_feistel)):
        elements[chosen] = method(positions[chosen], sizes[chosen], keys[chosen])
    return elements


def _by_rank(positions: I64, sizes: I64, keys: U64) -> I64:
    others = np.arange(sizes.max(initial=1), dtype=np.uint64)
    hashes = words_at(keys[:, None], others[None, :])
    mine = np.take_along_axis(hashes, positions[:, None], axis=1)
    return np.count_nonzero((hashes < mine) & (others < sizes[:, None].astype(np.uint64)), axis=1)


def _by_feistel(positions: I64, sizes: I64, keys: U64) -> I64:
    limits = sizes.astype(np.uint64)
    high = np.sqrt(limits).astype(np.uint64)
    high += high * high < limits
    low = (limits + high - _ONE) // high
    round_keys = mix(keys + np.arange(_ROUNDS, dtype=np.uint64)[:, None])
    values = _network(positions.astype(np.uint64), high, low, round_keys)
    outside = np.flatnonzero(values >= limits)
    while outside.size:
        values[outside] = _network(values[outside], high[outside], low[outside], round_keys[:, outside])
        outside = outside[values[outside] >= limits[outside]]
    return values.astype(np.int64)


def _network(values: U64, high: U64, low: U64, round_keys: U64) -> U64:
    """One pass over domains of ``high * low`` values; the digits swap places, and their bases, every round."""
    left, right = np.divmod(values, low)
    left_base, right_base = high, low
    for key in round_keys:
        noise = (right ^ key) * _M1
        noise = (noise ^ (noise >> _S32)) * _M2
        # One bit less, so that the sum does not wrap.
        left, right = right, (left + (noise >> _ONE)) % left_base
        left_base, right_base = right_base, left_base
    return left * right_base + right
