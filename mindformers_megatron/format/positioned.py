"""Reading pieces of a file exactly."""

import os

import numpy as np
from numpy.typing import NDArray

from mindformers_megatron.errors import DataError

# Linux transfers at most 0x7ffff000 bytes per call.
_MAX_READ_BYTES = 1 << 30


class PositionedFile:
    """A file that is read at explicit positions only, so that threads and forked processes may share it.

    Args:
        path: the file.

    Raises:
        DataError: it cannot be opened.
    """

    def __init__(self, path: "os.PathLike[str]") -> None:
        self._path = path
        self._descriptor = -1
        try:
            self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            raise DataError(f"{path}: cannot be opened: {error.strerror}") from None

    def read(self, position: int, size: int) -> NDArray[np.uint8]:
        """``size`` bytes from ``position`` on, not writable.

        Raises:
            DataError: the file ends before.
        """
        data = np.empty(size, np.uint8)
        self.read_into(position, data.data)
        data.flags.writeable = False
        return data

    def read_into(self, position: int, out: memoryview) -> None:
        """Fills ``out``, of format B, with what is in the file from ``position`` on. Raises as ``read`` does."""
        done, size = 0, len(out)
        while done < size:
            count = os.preadv(self._descriptor, [out[done : done + _MAX_READ_BYTES]], position + done)
            if count == 0:
                raise DataError(
                    f"{self._path}: truncated to {position + done} bytes, expected at least {position + size}"
                )
            done += count

    def announce(self, begin: NDArray[np.int64], size: NDArray[np.int64]) -> None:
        """Tells the system which stretches will be read soon: int64[K] first bytes, int64[K] sizes."""
        for first, length in zip(begin.tolist(), size.tolist(), strict=True):
            os.posix_fadvise(self._descriptor, first, length, os.POSIX_FADV_WILLNEED)

    def __del__(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
