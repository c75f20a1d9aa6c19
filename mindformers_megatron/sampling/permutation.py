"""Permutations of [0, n) that are computed, not stored: position → element in O(1), for any n and any key.

A Feistel network over two digits in bases of about √n, with cycle walking: an output outside [0, n) is fed in again
until it falls inside (Black and Rogaway, "Ciphers with arbitrary finite domains", 2002). The domain has less than √n
values too many, so nearly always the first output will do. Of a few elements, whose digits would be too small to mix
well, each goes to the rank of its hash among the hashes of all.
"""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from mindformers_megatron.sampling.keys import U64, mix, words_at

FEW = 128
# Below seven, the pairs of elements that follow each other in small permutations are visibly uneven (chi-square tests).
_ROUNDS = 7
_ONE, _S32 = np.uint64(1), np.uint64(32)
_M1, _M2 = np.uint64(0xD6E8FEB86659FD93), np.uint64(0xCF1BBCDCB7A56463)

_LAST = np.uint64(2**64 - 1)

I64 = npt.NDArray[np.int64]
Map = Callable[[I64, I64, U64], I64]


def permute(positions: I64, sizes: I64 | int, keys: U64) -> I64:
    """Returns the element at each position of the permutation that its size and its key select.

    Args:
        positions: int64[B], each in [0, size).
        sizes: int64[B] or one number, how many elements each permutation has; up to 2**62.
        keys: uint64[B], the key of each permutation, so that positions of several epochs go in one call.

    Returns:
        int64[B]. For a fixed size and key the map is a bijection of [0, size).
    """
    return _apply(positions, sizes, keys, _ranks, _feistel(_network))


def unpermute(elements: I64, sizes: I64 | int, keys: U64) -> I64:
    """Returns the position at which each element stands: the inverse of ``permute``, of the same arguments."""
    return _apply(elements, sizes, keys, _elements_of_ranks, _feistel(_network_back))


def _apply(values: I64, sizes: I64 | int, keys: U64, of_few: Map, of_many: Map) -> I64:
    sizes = np.broadcast_to(np.asarray(sizes, dtype=np.int64), values.shape)
    few = sizes <= FEW
    if few.all():
        return of_few(values, sizes, keys)
    if not few.any():
        return of_many(values, sizes, keys)
    result = np.empty_like(values)
    for chosen, method in ((few, of_few), (~few, of_many)):
        result[chosen] = method(values[chosen], sizes[chosen], keys[chosen])
    return result


def _hashes(sizes: I64, keys: U64) -> U64:
    """The hash of every element of each permutation, those beyond its size last of all: uint64[B, FEW at most]."""
    others = np.arange(sizes.max(initial=1), dtype=np.uint64)
    hashes = words_at(keys[:, None], others[None, :])
    return np.where(others < sizes[:, None].astype(np.uint64), hashes, _LAST)


def _ranks(positions: I64, sizes: I64, keys: U64) -> I64:
    hashes = _hashes(sizes, keys)
    return np.count_nonzero(hashes < np.take_along_axis(hashes, positions[:, None], axis=1), axis=1)


def _elements_of_ranks(elements: I64, sizes: I64, keys: U64) -> I64:
    order = np.argsort(_hashes(sizes, keys), axis=1)
    return np.take_along_axis(order, elements[:, None], axis=1)[:, 0]


def _feistel(network: Callable[[U64, U64, U64, U64], U64]) -> Map:
    def walk(values: I64, sizes: I64, keys: U64) -> I64:
        limits = sizes.astype(np.uint64)
        high = np.sqrt(limits).astype(np.uint64)
        high += high * high < limits
        low = (limits + high - _ONE) // high
        round_keys = mix(keys + np.arange(_ROUNDS, dtype=np.uint64)[:, None])
        walked = network(values.astype(np.uint64), high, low, round_keys)
        outside = np.flatnonzero(walked >= limits)
        while outside.size:
            walked[outside] = network(walked[outside], high[outside], low[outside], round_keys[:, outside])
            outside = outside[walked[outside] >= limits[outside]]
        return walked.astype(np.int64)

    return walk


def _noise(digits: U64, key: U64) -> U64:
    noise = (digits ^ key) * _M1
    noise = (noise ^ (noise >> _S32)) * _M2
    # One bit less, so that adding a digit does not wrap.
    return noise >> _ONE


def _network(values: U64, high: U64, low: U64, round_keys: U64) -> U64:
    """One pass over domains of ``high * low`` values; the digits swap places, and their bases, every round."""
    left, right = np.divmod(values, low)
    left_base, right_base = high, low
    for key in round_keys:
        left, right = right, (left + _noise(right, key)) % left_base
        left_base, right_base = right_base, left_base
    return left * right_base + right


def _network_back(values: U64, high: U64, low: U64, round_keys: U64) -> U64:
    left_base, right_base = (low, high) if _ROUNDS % 2 else (high, low)
    left, right = np.divmod(values, right_base)
    for key in round_keys[::-1]:
        left_base, right_base = right_base, left_base
        left, right = (right + left_base - _noise(left, key) % left_base) % left_base, left
    return left * right_base + right
