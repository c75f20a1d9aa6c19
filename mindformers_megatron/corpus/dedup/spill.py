"""Rows grouped by the range of a number, in memory up to a bound and in files beyond it.

What deduplication compares across a corpus are small rows (a hash, a document), and rows of equal hash must meet. They
are dealt out to ranges of the hash as they come. Each range is then taken on its own, in ascending order, so that what
is in memory at once is one range. Neither the order in which rows come nor the number of ranges changes which rows
meet: whoever sorts a range by all that makes a row unique gets the same in memory and from files.
"""

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import numpy.typing as npt

from mindformers_megatron.errors import ConfigError, DataError

Rows = npt.NDArray[Any]

# A range while it is sorted: the rows, their order, and the rows in order.
_COPIES = 3
# Files more than this would be too small to be read and written at the speed of a disk.
_MOST_RANGES = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """How much memory a global step may take, and where it goes on.

    Attributes:
        memory_bytes: for rows and their sorting; what an interpreter takes comes on top (about 100 MB).
        folder: where rows go that do not fit; None for the system's folder for temporary files. A local disk; nothing
            stays in it.
    """

    memory_bytes: int = 1 << 30
    folder: Path | None = None

    def __post_init__(self) -> None:
        if self.memory_bytes < 1 << 16:
            raise ConfigError(f"memory of {self.memory_bytes} bytes for a global step; give 65536 or more")


@dataclass(frozen=True, slots=True)
class Footprint:
    """What a global step needs: bytes of memory, bytes on disk, and in how many ranges it works."""

    memory_bytes: int
    disk_bytes: int
    ranges: int


def footprint(rows: int, row_bytes: int, bound: Bound) -> Footprint:
    """Tells beforehand what ``rows`` rows need."""
    whole = rows * row_bytes * _COPIES
    if whole <= bound.memory_bytes:
        return Footprint(whole, 0, 1)
    ranges = min(1 << (-(-whole // bound.memory_bytes) - 1).bit_length(), _MOST_RANGES)
    return Footprint(max(bound.memory_bytes, whole // ranges), rows * row_bytes, ranges)


class Spill:
    """Takes rows in any order and gives them back range by range.

    Args:
        dtype: of the rows, a structured type.
        key: the field, an unsigned or non-negative integer, by whose ranges rows are grouped; it should be spread
            evenly, for a range is taken into memory whole by those who sort it.
        limit: keys are below it.
        expected_rows: how many will come, as far as is known; too low a number costs memory, not correctness.
        bound: memory and the place for files.
    """

    def __init__(self, dtype: npt.DTypeLike, key: str, *, limit: int, expected_rows: int, bound: Bound) -> None:
        self.dtype = np.dtype(dtype)
        self._key = key
        self._bound = bound
        needed = footprint(expected_rows, self.dtype.itemsize, bound)
        self.ranges = needed.ranges
        self._width = -(-limit // self.ranges)
        self._waiting: list[Rows] = []
        self._waiting_bytes = 0
        self._folder: tempfile.TemporaryDirectory[str] | None = None

    def add(self, rows: Rows) -> None:
        """Takes rows in; the array must not change afterwards."""
        self._waiting.append(rows)
        self._waiting_bytes += rows.nbytes
        if self._waiting_bytes * _COPIES > self._bound.memory_bytes:
            self._flush()

    def __iter__(self) -> Iterator[Rows]:
        """Yields the rows of each range that has any, ranges ascending, rows of a range in no particular order."""
        for number in range(self.ranges):
            chunks = list(self.chunks(number))
            if chunks:
                yield chunks[0] if len(chunks) == 1 else np.concatenate(chunks)

    def chunks(self, number: int) -> Iterator[Rows]:
        """Yields the rows of one range in pieces that fit in memory, the same pieces each time."""
        if self._folder is None and self.ranges > 1:
            self._flush()
        if self._folder is None:
            if self._waiting:
                self._waiting = [np.concatenate(self._waiting)]
                yield self._waiting[0]
            return
        if self._waiting:
            self._flush()
        most = max(self._bound.memory_bytes // (_COPIES * self.dtype.itemsize), 1)
        path = self._path(number)
        if path.exists():
            rows = path.stat().st_size // self.dtype.itemsize
            for first in range(0, rows, most):
                offset = first * self.dtype.itemsize
                yield np.fromfile(path, self.dtype, count=min(most, rows - first), offset=offset)

    def close(self) -> None:
        """Removes the files."""
        self._waiting = []
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None

    def __enter__(self) -> "Spill":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _flush(self) -> None:
        if self._folder is None:
            self._folder = self._open_folder()
        if not self._waiting:
            return
        rows = np.concatenate(self._waiting)
        self._waiting, self._waiting_bytes = [], 0
        keys = rows[self._key].astype(np.uint64)
        # One range of all 64-bit keys is wider than any of them.
        numbers = (keys // np.uint64(self._width) if self.ranges > 1 else keys & np.uint64(0)).astype(np.uint16)
        rows = rows[np.argsort(numbers, kind="stable")]
        ends = np.cumsum(np.bincount(numbers, minlength=self.ranges))
        try:
            for number in np.flatnonzero(np.diff(ends, prepend=0)):
                with self._path(int(number)).open("ab") as file:
                    # Not ``tofile``, whose errors do not say what was wrong.
                    file.write(rows[ends[number - 1] if number else 0 : ends[number]].view(np.uint8).data)
        except OSError as error:
            raise DataError(
                f"{self._folder.name}: cannot take {rows.nbytes} bytes that do not fit in memory: {error.strerror}; "
                "give a folder with more room, or more memory"
            ) from None

    def _open_folder(self) -> "tempfile.TemporaryDirectory[str]":
        try:
            return tempfile.TemporaryDirectory(prefix="mfm-spill-", dir=self._bound.folder)
        except OSError as error:
            raise ConfigError(
                f"{self._bound.folder}: cannot hold what does not fit in memory: {error.strerror}"
            ) from None

    def _path(self, number: int) -> Path:
        assert self._folder is not None
        return Path(self._folder.name) / f"{number:04d}"
