"""Permutations of [0, n) that are computed, not stored: position → element in O(1), for any n and any key.

A Feistel network over the two half-words whose product is the next power of two, with cycle walking: an output
outside [0, n) is fed in again until it falls inside (Black and Rogaway, "Ciphers with arbitrary finite domains",
2002). The domain is less than twice n, so two evaluations on average. Of a few elements, whose half-words would have
too few bits to mix well, each goes to the rank of its hash among the hashes of all.
"""

import numpy as np
import numpy.typing as npt

from mindformers_megatron.sampling.keys import U64, mix, words_at

FEW = 64
_ROUNDS = 7

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
    # frexp of size - 1 gives its bit length; above 2**53 the rounding can only widen the domain.
    bits = np.frexp((sizes - 1).astype(np.float64))[1].astype(np.uint64)
    values, limits = positions.astype(np.uint64), sizes.astype(np.uint64)
    round_keys = mix(keys + np.arange(_ROUNDS, dtype=np.uint64)[:, None])
    active = np.arange(positions.size)
    while active.size:
        walked = _network(values[active], bits[active], round_keys[:, active])
        values[active] = walked
        active = active[walked >= limits[active]]
    return values.astype(np.int64)


def _network(values: U64, bits: U64, round_keys: U64) -> U64:
    """One pass over domains of ``bits`` bits; the halves swap sides, and widths, every round."""
    left_bits = bits >> np.uint64(1)
    right_bits = bits - left_bits
    one = np.uint64(1)
    left, right = values >> right_bits, values & ((one << right_bits) - one)
    left_mask, right_mask = (one << left_bits) - one, (one << right_bits) - one
    for key in round_keys:
        left, right = right, left ^ (mix(right ^ key) & left_mask)
        left_mask, right_mask = right_mask, left_mask
        left_bits, right_bits = right_bits, left_bits
    return (left << right_bits) | right
