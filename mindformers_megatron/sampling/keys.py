"""Keyed random numbers: the same (seed, name, purpose, index) gives the same bits on every machine, for ever.

NumPy's generators are streams: to know the millionth number one draws a million. Sampling needs the number *at* an
index, for a whole array of indices at once, so the bits come from a counter hashed under a key (the finaliser of
SplitMix64, Steele et al. 2014), and the key from BLAKE2b over what the numbers are for.
"""

import hashlib

import numpy as np
import numpy.typing as npt

U64 = npt.NDArray[np.uint64]

_GAMMA = np.uint64(0x9E3779B97F4A7C15)
_M1 = np.uint64(0xBF58476D1CE4E5B9)
_M2 = np.uint64(0x94D049BB133111EB)
_S30, _S27, _S31 = np.uint64(30), np.uint64(27), np.uint64(31)


def derive_key(*parts: int | str) -> int:
    """Returns the 64-bit key of ``parts``; different parts, or the same in another order, give unrelated keys."""
    digest = hashlib.blake2b(digest_size=8)
    for part in parts:
        data = f"{type(part).__name__}:{part}".encode()
        digest.update(len(data).to_bytes(8, "little") + data)
    return int.from_bytes(digest.digest(), "little")


def mix(values: U64) -> U64:
    """Hashes each value of a uint64 array to 64 bits that look random (a bijection)."""
    values = (values ^ (values >> _S30)) * _M1
    values = (values ^ (values >> _S27)) * _M2
    return values ^ (values >> _S31)


def words_at(keys: U64, counters: U64) -> U64:
    """Returns the 64-bit word of each counter under its key; the two arrays broadcast."""
    return mix(keys ^ mix(counters * _GAMMA + _GAMMA))


def below(words: U64, bounds: U64) -> npt.NDArray[np.int64]:
    """Maps 64-bit words to [0, bound), bounds up to 2**32, by Lemire's multiply-shift (bias 2**-32)."""
    return (((words >> np.uint64(32)) * bounds) >> np.uint64(32)).astype(np.int64)
