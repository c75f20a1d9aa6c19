"""The files to be tokenized, in the order in which their documents are written."""

import glob
import hashlib
import os
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mindformers_megatron.errors import DataError

_CHUNK_BYTES = 1 << 22


@dataclass(frozen=True, slots=True)
class InputFile:
    """One file of JSONL.

    Attributes:
        path: the file.
        size: bytes, when the run began.
        modified: time of last change, in nanoseconds, when the run began.
        source: what its documents are counted under if they do not name their own source.
    """

    path: Path
    size: int
    modified: int
    source: str


def find_inputs(patterns: Sequence[str | os.PathLike[str]]) -> list[InputFile]:
    """Finds the input files.

    Args:
        patterns: paths or glob patterns (``**`` reaches into folders). The files of a pattern come in the order of
            their names, patterns in the order given. A file that exists is taken as it is, whatever its name looks
            like.

    Raises:
        DataError: a file is missing or is no regular file, or a pattern matches nothing.
    """
    files = []
    for pattern in patterns:
        name = os.fspath(pattern)
        if os.path.lexists(name) or not glob.has_magic(name):
            files.append(_input_file(Path(name)))
            continue
        matches = sorted(match for match in _glob(name) if not Path(match).is_dir())
        if not matches:
            raise DataError(f"{name}: no file matches this pattern")
        files.extend(_input_file(Path(match)) for match in matches)
    return files


def _glob(pattern: str) -> list[str]:
    # Not Path.glob: it takes no absolute patterns.
    return glob.glob(pattern, recursive=True)  # noqa: PTH207


def _input_file(path: Path) -> InputFile:
    try:
        status = path.stat()
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror}") from None
    if stat.S_ISDIR(status.st_mode):
        raise DataError(f"{path}: is a folder; give files, or a pattern such as '{path}/*.jsonl'")
    if not stat.S_ISREG(status.st_mode):
        raise DataError(f"{path}: is no regular file; write the records to a file first")
    if not os.access(path, os.R_OK):
        raise DataError(f"{path}: cannot be read: permission denied")
    return InputFile(path, status.st_size, status.st_mtime_ns, path.name.split(".")[0] or path.name)


class InputHasher:
    """SHA-256 of the input files, taken range by range in order, while the ranges are still in the page cache."""

    def __init__(self) -> None:
        self._hashes: dict[Path, Any] = {}

    def add(self, path: Path, start: int, stop: int) -> None:
        """Takes in bytes ``[start, stop)`` of a file, which follow those taken in before."""
        if start == 0:
            self._hashes[path] = hashlib.sha256()
        with path.open("rb") as file:
            file.seek(start)
            while start < stop and (data := file.read(min(_CHUNK_BYTES, stop - start))):
                self._hashes[path].update(data)
                start += len(data)

    def digest(self, path: Path) -> str:
        """Hex digest of what was taken in of a file."""
        digest: str = self._hashes.get(path, hashlib.sha256()).hexdigest()
        return digest


def check_unchanged(files: Sequence[InputFile]) -> None:
    """Checks that the files are what they were when the run began.

    Raises:
        DataError: one has another size or was written to.
    """
    for file in files:
        now = _input_file(file.path)
        if (now.size, now.modified) != (file.size, file.modified):
            raise DataError(f"{file.path}: was changed while it was read; run again when it is complete")
