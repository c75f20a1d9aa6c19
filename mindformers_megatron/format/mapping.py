"""A whole file as read-only memory."""

import mmap
import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mindformers_megatron.errors import DataError


def map_file(path: Path) -> NDArray[np.uint8]:
    """Maps a file; nothing of it is read until it is touched.

    The array and every view of it keep the mapping alive, also after the object that asked for it is gone.

    Returns:
        uint8[size], not writable. An empty file, which cannot be mapped, gives an empty array.

    Raises:
        DataError: the file is missing or cannot be mapped.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise DataError(f"{path}: cannot be opened: {error.strerror}") from None
    try:
        size = os.fstat(descriptor).st_size
        if size == 0:
            empty = np.empty(0, np.uint8)
            empty.flags.writeable = False
            return empty
        # Not numpy.memmap: its subclass makes every later slice several times slower.
        return np.frombuffer(mmap.mmap(descriptor, size, access=mmap.ACCESS_READ), np.uint8)
    except OSError as error:
        raise DataError(f"{path}: cannot be mapped into memory: {error.strerror}") from None
    finally:
        os.close(descriptor)


def announce(data: NDArray[Any], begin: NDArray[np.int64], size: NDArray[np.int64]) -> None:
    """Tells the system which stretches of a mapped file will be read soon, so that it fetches them together and ahead.

    Args:
        data: What ``map_file`` gave, or a view of all of it.
        begin: int64[K], the first byte of each stretch.
        size: int64[K], its bytes, at least 1.
    """
    base: object = data.base
    while isinstance(base, np.ndarray):
        base = base.base
    if isinstance(base, memoryview) and isinstance(base.obj, mmap.mmap):
        advise = base.obj.madvise
        page = begin // mmap.PAGESIZE * mmap.PAGESIZE
        for first, length in zip(page.tolist(), (begin + size - page).tolist(), strict=True):
            advise(mmap.MADV_WILLNEED, first, length)


def view(data: NDArray[np.uint8], dtype: np.dtype[Any], count: int, offset: int) -> NDArray[Any]:
    """``count`` values of ``dtype`` from byte ``offset`` on, without a copy and without regard to alignment."""
    return data[offset : offset + count * dtype.itemsize].view(dtype)
