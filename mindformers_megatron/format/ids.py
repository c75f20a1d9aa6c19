"""Token ids on their way into a file: nothing may wrap around, be cut off or be rounded."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mindformers_megatron.errors import DataError
from mindformers_megatron.format.layout import MAX_SEQUENCE_TOKENS

IntArray = Sequence[int] | NDArray[Any]


def as_tokens(ids: IntArray, dtype: np.dtype[Any], where: Callable[[int], str]) -> NDArray[Any]:
    """Converts ids to the type of the file.

    Args:
        ids: int[N].
        dtype: type of the file.
        where: names the place of the token at a position, for the error.

    Returns:
        ``dtype[N]``, contiguous; the array itself where it has that type already.

    Raises:
        DataError: an id does not fit the type or is no integer (no float of the file's type, in a file of floats).
    """
    array = _as_array(ids, where)
    if array.dtype == dtype or array.size == 0:
        return np.ascontiguousarray(array, dtype)
    if array.dtype.kind in "iu" and dtype.kind in "iu":
        if not np.can_cast(array.dtype, dtype, "safe"):
            _check_range(array, dtype, where)
        return array.astype(dtype)
    if array.dtype.kind == "f" and dtype.kind == "f" and np.can_cast(array.dtype, dtype, "safe"):
        return array.astype(dtype)
    if dtype.kind == "f":
        raise DataError(f"{where(0)}: values of type {array.dtype} in a file of {dtype.name}; convert them first")
    for position, value in enumerate(ids):
        if not _is_id(value, dtype):
            raise DataError(
                f"{where(position)}: {value!r} ({array.dtype}) is no token id of a {dtype.name} file; {_allowed(dtype)}"
            )
    return array.astype(dtype)


def as_counts(counts: IntArray, total: int, things: str, where: Callable[[int], str]) -> NDArray[np.int32]:
    """Checks numbers of things that must add up, such as the lengths of sequences in tokens.

    Args:
        counts: int[K].
        total: what they must add up to.
        things: what is counted, for the error.
        where: names the place of the count at a position, for the error.

    Raises:
        DataError: a count is no integer, negative or above 2^31 - 1, or the sum is wrong.
    """
    array = _as_array(counts, where)
    if array.size == 0:
        array = np.empty(0, np.int32)
    if array.dtype.kind not in "iu":
        raise DataError(f"{where(0)}: numbers of {things} of type {array.dtype}, expected integers")
    for position in {int(array.argmin()), int(array.argmax())} if array.size else ():
        count = int(array[position])
        if not 0 <= count <= MAX_SEQUENCE_TOKENS:
            raise DataError(f"{where(position)}: {count} {things}, expected 0 to {MAX_SEQUENCE_TOKENS}")
    if (found := int(array.sum(dtype=np.int64))) != total:
        raise DataError(f"{where(0)}: the numbers of {things} add up to {found}, but there are {total} {things}")
    return array.astype(np.dtype("<i4"))


def _as_array(values: IntArray, where: Callable[[int], str]) -> NDArray[Any]:
    try:
        array = np.asarray(values)
    except (ValueError, OverflowError):  # lists of unequal length
        raise DataError(f"{where(0)}: no flat list of integers") from None
    if array.ndim != 1:
        raise DataError(f"{where(0)}: integers of shape {array.shape}, expected one dimension")
    return array


def _check_range(array: NDArray[Any], dtype: np.dtype[Any], where: Callable[[int], str]) -> None:
    # Compared as Python integers: NumPy 1 would compare uint64 with negative bounds as floats.
    for position in (int(array.argmin()), int(array.argmax())):
        if not _is_id(array[position], dtype):
            value = int(array[position])
            raise DataError(
                f"{where(position)}: id {value} does not fit the {dtype.name} of the file; {_allowed(dtype)}"
            )


def _is_id(value: object, dtype: np.dtype[Any]) -> bool:
    limits = np.iinfo(dtype)
    is_integer = isinstance(value, int | np.integer) and not isinstance(value, bool)
    return is_integer and int(limits.min) <= int(value) <= int(limits.max)  # type: ignore[call-overload]


def _allowed(dtype: np.dtype[Any]) -> str:
    limits = np.iinfo(dtype)
    return f"allowed are {limits.min} to {limits.max}; use a wider dtype or check the tokenizer"
