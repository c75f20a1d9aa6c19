"""The words of a batch of texts, as arrays: where each stands and a 64-bit hash of what it is.

A word is a run of letters, marks and digits, folded in case and width; in scripts without spaces (Chinese, Japanese,
Thai) every character is a word of its own. Near-duplicate search and contamination search both count in these words,
so an n-gram means n words of English and n characters of Chinese, also within one text.

There is no Python loop over words. A word's hash is a polynomial in its characters modulo 2**64, taken from running
sums over the whole batch, and then mixed; texts can be made that collide (every polynomial modulo a power of two has
them), so who needs certainty compares the words behind equal hashes.
"""

import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mindformers_megatron.corpus.characters import SEPARATOR, SIGN, folded, kinds

I64 = npt.NDArray[np.int64]
U32 = npt.NDArray[np.uint32]
U64 = npt.NDArray[np.uint64]

# Code points of a batch: its arrays, of 1 to 8 bytes a code point, stay in the caches of one core.
_BATCH = 1 << 18
# Code points whose hashes are computed together.
_REACH = 1 << 19
_BASE = 0x9E3779B97F4A7C15
_INVERSE = pow(_BASE, -1, 1 << 64)
_M1, _M2 = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_S30, _S27, _S31 = np.uint64(30), np.uint64(27), np.uint64(31)


@dataclass(frozen=True, slots=True)
class Words:
    """The words of some texts.

    Attributes:
        offsets: int64[D+1], the words of text d are those from ``offsets[d]`` up to ``offsets[d + 1]``.
        starts: int64[W], where each word begins, in characters of the joined texts.
        ends: int64[W], where it ends (exclusive).
        hashes: uint64[W], equal for equal words.
        text_starts: int64[D], where each text begins in the joined texts.
        codes: uint32[C], the code points of the joined texts, as they were.
        sums: uint64[C+1], running sums of the hashes of characters; None: the texts are too long for it.
    """

    offsets: I64
    starts: I64
    ends: I64
    hashes: U64
    text_starts: I64
    codes: U32
    sums: U64 | None

    def hash_spans(self, starts: I64, ends: I64) -> U64:
        """Hashes stretches of characters, folded as words are; equal for equal ones.

        Args:
            starts: int64[S], where each begins in the joined texts, ascending.
            ends: int64[S], where it ends (exclusive), ascending.
        """
        return _hash_spans(self.codes, self.sums, starts, ends)


def split_words(texts: Sequence[str]) -> Words:
    """Finds the words of texts; about 13 bytes of memory per character, and 32 per word.

    Args:
        texts: any strings; lone surrogates are separators.
    """
    count = len(texts)
    sizes = np.fromiter(map(len, texts), dtype=np.int64, count=count)
    text_starts = np.zeros(count, dtype=np.int64)
    np.cumsum(sizes[:-1] + 1, out=text_starts[1:])
    # A separator between texts, and one at the end, so that no word touches two of them or the edge.
    joined = "\n".join(texts) + "\n"
    codes = np.frombuffer(joined.encode("utf-32-le", "surrogatepass"), dtype=np.uint32)
    kind = kinds().take(codes)
    starts, ends = _runs(kind)
    sums = _running_sums(codes) if codes.size <= _REACH else None
    return Words(
        offsets=np.append(np.searchsorted(starts, text_starts), starts.size),
        starts=starts,
        ends=ends,
        hashes=_hash_spans(codes, sums, starts, ends),
        text_starts=text_starts,
        codes=codes,
        sums=sums,
    )


def batches(texts: Sequence[str], characters: int = _BATCH) -> Iterator[slice]:
    """Cuts texts into neighbouring batches of about ``characters`` characters, each of one text at least."""
    first = size = 0
    for number, text in enumerate(texts):
        if size and size + len(text) > characters:
            yield slice(first, number)
            first, size = number, 0
        size += len(text) + 1
    if first < len(texts):
        yield slice(first, len(texts))


def mix(values: U64) -> U64:
    """Hashes each value to 64 bits that look random (the finaliser of SplitMix64, Steele et al. 2014)."""
    values = (values ^ (values >> _S30)) * _M1
    values = (values ^ (values >> _S27)) * _M2
    return values ^ (values >> _S31)


def _runs(kind: npt.NDArray[np.uint8]) -> tuple[I64, I64]:
    """Where words begin and end: at every change of kind, and around every sign."""
    edge = np.empty(kind.size + 1, dtype=np.bool_)
    edge[0] = edge[-1] = True
    np.not_equal(kind[1:], kind[:-1], out=edge[1:-1])
    sign = kind == SIGN
    if sign.any():
        edge[:-1] |= sign
        edge[1:] |= sign
    edges = np.flatnonzero(edge)
    word = kind[edges[:-1]] != SEPARATOR
    return edges[:-1][word], edges[1:][word]


def _hash_spans(codes: U32, sums: U64 | None, starts: I64, ends: I64) -> U64:
    if sums is not None:
        return _between(sums, starts, ends)
    hashes = np.empty(starts.size, dtype=np.uint64)
    first = 0
    # As many are taken at a time as the tables of powers reach.
    while first < starts.size:
        last = max(int(np.searchsorted(ends, starts[first] + _REACH, side="right")), first + 1)
        origin, end = int(starts[first]), int(ends[last - 1])
        some = _running_sums(codes[origin:end])
        hashes[first:last] = _between(some, starts[first:last] - origin, ends[first:last] - origin)
        first = last
    return hashes


def _running_sums(codes: U32) -> U64:
    sums = np.zeros(codes.size + 1, dtype=np.uint64)
    powers, _ = _powers(_bits(codes.size))
    np.cumsum(_values().take(codes) * powers[: codes.size], out=sums[1:])
    return sums


def _between(sums: U64, starts: I64, ends: I64) -> U64:
    # The difference of two running sums, moved down to the power of zero.
    _, inverses = _powers(_bits(sums.size - 1))
    return mix((sums[ends] - sums[starts]) * inverses[starts])


def _bits(characters: int) -> int:
    return max(characters - 1, _REACH - 1).bit_length()


@functools.cache
def _values() -> U64:
    """uint64[0x110000]: a random-looking number for each folded code point."""
    return mix(folded().astype(np.uint64) + np.uint64(1))


@functools.lru_cache(maxsize=1)
def _powers(bits: int) -> tuple[U64, U64]:
    """The first ``2**bits`` powers of the base and of its inverse."""
    steps = np.array([[_BASE], [_INVERSE]], dtype=np.uint64).repeat(1 << bits, axis=1)
    steps[:, 0] = 1
    powers, inverses = np.cumprod(steps, axis=1, dtype=np.uint64)
    return powers, inverses
