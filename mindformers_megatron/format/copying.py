"""Appending one file to another without the bytes passing through Python."""

import errno
import os
from collections.abc import Callable
from pathlib import Path

from mindformers_megatron.errors import DataError
from mindformers_megatron.format.hashing import Hashes

# Small enough that an interrupt is answered at once, large enough that the calls do not count.
_KERNEL_BYTES = 1 << 26
_BUFFER_BYTES = 1 << 22
# "Not this way": other file systems, old kernels, special files. Whatever else goes wrong would go wrong again.
_UNSUPPORTED = {errno.EXDEV, errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EPERM, errno.EBADF}


def append_file(
    path: Path,
    size: int,
    target: int,
    hashes: Hashes,
    *,
    start: int = 0,
    on_bytes: Callable[[int], None] | None = None,
) -> None:
    """Appends a file, or part of it, to an open one.

    Args:
        path: the file to append.
        size: how many bytes of it; it must have that many.
        target: descriptor of the other, at its end.
        hashes: take in the bytes as well, if they are asked for; the bytes then do pass through Python.
        start: the first byte to append.
        on_bytes: told, now and then, how many bytes were copied since it was last told.

    Raises:
        DataError: the file has fewer bytes.
        OSError: the disk is full or fails.
    """
    source = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        done = 0
        methods = [_buffered] if hashes else [_in_file_system, _in_kernel, _buffered]
        while done < size:
            try:
                count = methods[0](source, target, start + done, size - done, hashes)
            except OSError as error:
                if len(methods) == 1 or error.errno not in _UNSUPPORTED:
                    raise
                count = 0
            # Some kernels report an end where there is none; only a plain read is believed.
            if count == 0 and len(methods) == 1:
                raise DataError(
                    f"{path}: ends at byte {start + done}, expected {start + size}; it was truncated while being read"
                )
            if count == 0:
                del methods[0]
            elif on_bytes is not None:
                on_bytes(count)
            done += count
    finally:
        os.close(source)


def _in_file_system(source: int, target: int, position: int, size: int, hashes: Hashes) -> int:
    return os.copy_file_range(source, target, min(size, _KERNEL_BYTES), position)


def _in_kernel(source: int, target: int, position: int, size: int, hashes: Hashes) -> int:
    return os.sendfile(target, source, position, min(size, _KERNEL_BYTES))


def _buffered(source: int, target: int, position: int, size: int, hashes: Hashes) -> int:
    data = os.pread(source, min(size, _BUFFER_BYTES), position)
    hashes.update(data)
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(target, rest) :]
    return len(data)
