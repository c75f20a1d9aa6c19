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

# Rows while they are dealt out: as they came, in one array, and by range.
_DEALING = 3
# A range while it is worked on: its rows, in order, and what is made of them.
_WORKING = 8
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

    def half(self) -> "Bound":
        """Returns the bound of each of two that work at once."""
        return Bound(memory_bytes=max(self.memory_bytes // 2, 1 << 16), folder=self.folder)


@dataclass(frozen=True, slots=True)
class Footprint:
    """What a global step needs: bytes of memory, bytes on disk, and in how many ranges it works."""

    memory_bytes: int
    disk_bytes: int
    ranges: int

    def __add__(self, other: "Footprint") -> "Footprint":
        """Returns what two need at once."""
        return Footprint(
            self.memory_bytes + other.memory_bytes,
            self.disk_bytes + other.disk_bytes,
            max(self.ranges, other.ranges),
        )


def footprint(rows: int, row_bytes: int, bound: Bound) -> Footprint:
    """Tells beforehand what ``rows`` rows need."""
    whole = rows * row_bytes
    ranges = min(1 << max(-(-whole * _WORKING // bound.memory_bytes) - 1, 0).bit_length(), _MOST_RANGES)
    in_memory = whole * _DEALING <= bound.memory_bytes
    waiting = whole * _DEALING if in_memory else bound.memory_bytes
    return Footprint(max(waiting, whole // ranges * _WORKING), 0 if in_memory else whole, ranges)


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
        self._ends: npt.NDArray[np.int64] | None = None
        self._folder: tempfile.TemporaryDirectory[str] | None = None

    def add(self, rows: Rows) -> None:
        """Takes rows in; the array must not change afterwards."""
        self._waiting.append(rows)
        self._ends = None
        self._waiting_bytes += rows.nbytes
        if self._waiting_bytes * _DEALING > self._bound.memory_bytes:
            self._write()

    def __iter__(self) -> Iterator[Rows]:
        """Yields the rows of each range that has any, ranges ascending, rows of a range in no particular order."""
        for number in range(self.ranges):
            chunks = list(self.chunks(number))
            if chunks:
                yield chunks[0] if len(chunks) == 1 else np.concatenate(chunks)

    def chunks(self, number: int) -> Iterator[Rows]:
        """Yields the rows of one range in pieces that fit in memory, the same pieces each time.

        Nothing may be added between one call and the next.
        """
        if self._folder is None:
            yield from self._cut(self._dealt_in_memory(number))
            return
        if self._waiting:
            self._write()
        path = self._path(number)
        if path.exists():
            rows = path.stat().st_size // self.dtype.itemsize
            for first in range(0, rows, self._most()):
                offset = first * self.dtype.itemsize
                yield np.fromfile(path, self.dtype, count=min(self._most(), rows - first), offset=offset)

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

    def _most(self) -> int:
        """Rows of a piece."""
        return max(self._bound.memory_bytes // (_WORKING * self.dtype.itemsize), 1)

    def _cut(self, rows: Rows) -> Iterator[Rows]:
        for first in range(0, rows.size, self._most()):
            yield rows[first : first + self._most()]

    def _dealt_in_memory(self, number: int) -> Rows:
        if self._ends is None:
            rows, self._ends = self._deal()
            self._waiting = [rows]
        return self._waiting[0][self._ends[number] : self._ends[number + 1]]

    def _deal(self) -> tuple[Rows, npt.NDArray[np.int64]]:
        """The rows that wait, by range, and where each range begins and ends."""
        rows = np.concatenate(self._waiting) if self._waiting else np.zeros(0, dtype=self.dtype)
        # One range of all 64-bit keys is wider than any of them.
        if self.ranges == 1:
            return rows, np.array([0, rows.size])
        numbers = (rows[self._key].astype(np.uint64) // np.uint64(self._width)).astype(np.uint16)
        ends = np.concatenate(([0], np.cumsum(np.bincount(numbers, minlength=self.ranges))))
        return rows[np.argsort(numbers, kind="stable")], ends

    def _write(self) -> None:
        if self._folder is None:
            self._folder = self._open_folder()
        rows, ends = self._deal()
        self._waiting, self._waiting_bytes = [], 0
        try:
            for number in np.flatnonzero(np.diff(ends)):
                with self._path(int(number)).open("ab") as file:
                    # Not ``tofile``, whose errors do not say what was wrong.
                    file.write(rows[ends[number] : ends[number + 1]].view(np.uint8).data)
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
