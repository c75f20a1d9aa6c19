"""A pickled dictionary as index: ``sizes`` and ``offsets``, and perhaps ``seq_length``, ``vocab_size``, ``version``."""

import pickle
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from mindformers_megatron.errors import DataError
from mindformers_megatron.format.layouts.foreign import MOST_DOCUMENTS, ForeignPair, check_lengths, token_type
from mindformers_megatron.format.layouts.unpickling import RefusedPickleError, load_plain
from mindformers_megatron.format.paths import bin_path, idx_path

NAME = "pickled dictionary"
# As much as the largest index that is read has at most.
_MOST_BYTES = 24 * MOST_DOCUMENTS


def read_pickled(prefix: str, dtype: np.dtype[Any] | None = None) -> ForeignPair:
    """Opens a pair of this layout. The pickle is not executed.

    Args:
        prefix: of the pair.
        dtype: of the tokens; None: by the size of the ``.bin``.

    Raises:
        DataError: the pickle holds anything but plain data, lacks an entry, or does not fit its ``.bin``.
    """
    path = idx_path(prefix)
    try:
        content = load_plain(_read(path))
    except RefusedPickleError as error:
        raise DataError(f"{path}: {error}; it was not executed") from None
    if not isinstance(content, dict):
        raise DataError(f"{path}: a pickled {type(content).__name__}, expected a dictionary with sizes and offsets")
    sizes, offsets = (_numbers(path, content, name) for name in ("sizes", "offsets"))
    if (unit := _unit(sizes, offsets)) > 1:
        offsets = offsets // unit
    total = check_lengths(path, sizes, offsets, unit="document")
    tokens = token_type(bin_path(prefix), total, dtype)
    return ForeignPair(
        NAME,
        bin_path(prefix),
        tokens,
        sizes,
        seq_length=_positive(content.get("seq_length")),
        vocab_size=_positive(content.get("vocab_size")),
    )


def write_pickled(file: BinaryIO, sizes: NDArray[np.int64], known: dict[str, int | None]) -> None:
    """Writes an index of this layout, with lists of plain integers, which every Python reads.

    Args:
        file: what to write to.
        sizes: int64[N], tokens of each document.
        known: what else is to be in it.
    """
    offsets = np.cumsum(sizes) - sizes
    content = {"sizes": sizes.tolist(), "offsets": offsets.tolist(), **known, "version": 1}
    pickle.dump(content, file, protocol=4)


def _read(path: Path) -> bytes:
    try:
        if path.stat().st_size > _MOST_BYTES:
            raise DataError(f"{path}: more than {_MOST_BYTES:,} bytes, too large for a pickled index")
        return path.read_bytes()
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror}") from None


def _numbers(path: Path, content: dict[Any, Any], name: str) -> NDArray[Any]:
    if name not in content:
        raise DataError(f"{path}: has no {name!r} (it has {', '.join(map(repr, list(content)[:8]))})")
    try:
        numbers = np.asarray(content[name])
    except (ValueError, OverflowError):
        raise DataError(f"{path}: {name} are no list of integers") from None
    return numbers.astype(np.int64) if numbers.size == 0 else numbers


def _unit(sizes: NDArray[Any], offsets: NDArray[Any]) -> int:
    """How much offsets count for each token: 1, or the bytes of a token."""
    if not sizes.size or sizes.dtype.kind not in "iu" or offsets.dtype.kind not in "iu" or offsets.shape != sizes.shape:
        return 1
    # Tokens before the last document, which tell the units apart best.
    before = int(sizes[:-1].astype(np.int64).sum())
    return next((unit for unit in (1, 2, 4, 8) if int(offsets[-1]) == before * unit), 1)


def _positive(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None
