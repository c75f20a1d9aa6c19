"""What all layouts come down to: a stream of tokens, and where it is divided."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mindformers_megatron.errors import ConfigError, DataError
from mindformers_megatron.format.layout import MAX_SEQUENCE_TOKENS

# What tokens of so many bytes are, where nothing says so.
_BY_WIDTH = {1: "u1", 2: "<u2", 4: "<i4", 8: "<i8"}
_AT_ONCE = 1 << 20
# Layouts that have to be held in memory: 2 GiB for each of their arrays.
MOST_DOCUMENTS = 1 << 28


@dataclass(frozen=True, slots=True, eq=False)
class ForeignPair:
    """A pair in some layout, of which everything that can be checked without reading the tokens has been checked.

    Attributes:
        layout: its name, for people.
        bin: the file with the tokens.
        dtype: their type and byte order.
        lengths: int[S]: tokens of each sequence.
        sequences: int[D]: how many sequences each document has; None: every sequence is a document.
        added: was added to every id, and has to be subtracted.
        seq_length: the length it was made for, if it says so.
        vocab_size: likewise.
    """

    layout: str
    bin: Path
    dtype: np.dtype[Any]
    lengths: NDArray[np.integer[Any]]
    sequences: NDArray[np.integer[Any]] | None = None
    added: int = 0
    seq_length: int | None = None
    vocab_size: int | None = None


def check_lengths(path: Path, lengths: NDArray[Any], offsets: NDArray[Any] | None = None, *, unit: str) -> int:
    """Checks lengths, and that every document begins where the one before ends.

    Args:
        path: the index, for errors.
        lengths: [N], in tokens.
        offsets: [N] or [N + 1], where documents begin, in tokens; None if the layout does not say.
        unit: what each of them is: ``document`` or ``sequence``.

    Returns:
        The sum.

    Raises:
        DataError: a number is no integer, a length is negative, or offsets do not follow from lengths.
    """
    for name, values in (("lengths", lengths), ("offsets", offsets)):
        if values is not None and (values.dtype.kind not in "iu" or values.ndim != 1):
            raise DataError(f"{path}: {name} are {values.dtype} of shape {values.shape}, expected integers in a row")
    count = lengths.size
    if offsets is not None and offsets.size not in (count, count + 1):
        raise DataError(f"{path}: {offsets.size:,} offsets for {count:,} {unit}s")
    total = 0
    for begin in range(0, count, _AT_ONCE):
        # uint64 would turn into floats beside int64; values beyond its half are wrong in any case.
        sizes = lengths[begin : begin + _AT_ONCE].astype(np.int64)
        wrong = np.flatnonzero((sizes < 0) | (sizes > MAX_SEQUENCE_TOKENS))
        if wrong.size:
            place = int(wrong[0])
            raise DataError(f"{path}: {unit} {begin + place:,} has {sizes[place]:,} tokens")
        ends = total + np.cumsum(sizes)
        if offsets is not None:
            starts = np.concatenate(([total], ends[:-1]))
            wrong = np.flatnonzero(offsets[begin : begin + sizes.size].astype(np.int64) != starts)
            if wrong.size:
                place = int(wrong[0])
                found, expected = int(offsets[begin + place]), int(starts[place])
                raise DataError(
                    f"{path}: {unit} {begin + place:,} begins at {found:,}, but what is before it ends at {expected:,}"
                )
        total = int(ends[-1])
    if offsets is not None and offsets.size == count + 1 and int(offsets[-1]) != total:
        raise DataError(f"{path}: the last offset is {int(offsets[-1]):,}, but the lengths add up to {total:,}")
    return total


def token_type(path: Path, tokens: int, declared: np.dtype[Any] | None) -> np.dtype[Any]:
    """The type of the tokens of a file.

    Args:
        path: the ``.bin``.
        tokens: how many there are by the index.
        declared: what the index or the user says; None: it follows from the size.

    Raises:
        DataError: the file is missing, or is not as large as that.
    """
    try:
        size = path.stat().st_size
    except OSError as error:
        raise DataError(f"{path}: cannot be opened: {error.strerror}") from None
    if declared is not None:
        if size != tokens * declared.itemsize:
            raise DataError(
                f"{path}: {size:,} bytes, but the index has {tokens:,} tokens, which as {declared.name} are "
                f"{tokens * declared.itemsize:,}"
            )
        return declared
    width, rest = divmod(size, tokens) if tokens else (2, size)
    if rest or width not in _BY_WIDTH:
        raise DataError(f"{path}: {size:,} bytes, but the index has {tokens:,} tokens: not 1, 2, 4 or 8 bytes each")
    return np.dtype(_BY_WIDTH[width])


def bin_dtype(name: str) -> np.dtype[Any]:
    """The type that a user names: NumPy's names, with ``>`` for big-endian.

    Raises:
        ConfigError: there is no such type, or tokens are never of it.
    """
    try:
        dtype = np.dtype(name)
    except TypeError:
        raise ConfigError(f"{name!r} is no NumPy type; give one like uint16, int32 or '>u2'") from None
    if dtype.kind not in "iuf" or (dtype.kind == "f" and dtype.itemsize not in (4, 8)):
        raise ConfigError(f"{name!r} is no type for tokens; give one like uint16, int32 or '>u2'")
    return dtype
