"""The files to be tokenized, in the order in which their documents are written."""

import glob
import hashlib
import os
import re
import stat
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mindformers_megatron.errors import DataError

STDIN = Path("-")
# Small enough to stay in a core's cache between being read and being hashed.
_CHUNK_BYTES = 1 << 20
_AHEAD_BYTES = 1 << 30
_SUFFIXES = (".jsonl", ".ndjson", ".json", ".parquet", ".pq")
_COMPRESSED = (".gz", ".zst", ".zstd", ".xz", ".bz2")
_NAMED = re.compile(r"([^/=*?\[\]\0]+)=(.+)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class InputFile:
    """One file of records.

    Attributes:
        path: the file; ``-``: standard input.
        size: bytes, when the run began; 0 of standard input.
        modified: time of last change, in nanoseconds, when the run began.
        source: what its documents are counted under if they do not name their own source.
        is_named: the source was given for this input, and holds whatever its documents name.
        changed: time of last change of content, name or rights, in nanoseconds; nobody can set it.
        inode: which file it is.
    """

    path: Path
    size: int
    modified: int
    source: str
    is_named: bool = False
    changed: int = 0
    inode: int = 0

    @property
    def is_parquet(self) -> bool:
        """Whether its records are rows of Parquet; else they are lines of JSON."""
        return self.path.suffix in (".parquet", ".pq")


def find_inputs(patterns: Sequence[str | os.PathLike[str]]) -> list[InputFile]:
    """Finds the input files.

    Args:
        patterns: paths, folders, or glob patterns (``**`` reaches into folders); ``-`` is standard input. The files of
            a pattern or folder come in the order of their names, patterns in the order given. A file that exists is
            taken as it is, whatever its name looks like. ``name=pattern`` counts what it finds under that name.

    Raises:
        DataError: a file is missing or is no regular file, or a pattern or folder has none.
    """
    return [file for pattern in patterns for file in _find(os.fspath(pattern))]


def _find(name: str) -> list[InputFile]:
    source = None
    if not os.path.lexists(name) and (named := _NAMED.fullmatch(name)):
        source, name = named[1], named[2]
    if name == str(STDIN):
        return [InputFile(STDIN, 0, 0, source or "stdin", source is not None)]
    if Path(name).is_dir():
        found = files_below(Path(name), _SUFFIXES)
    elif os.path.lexists(name) or not glob.has_magic(name):
        found = [Path(name)]
    else:
        # Not Path.glob: it takes no absolute patterns.
        found = sorted(map(Path, glob.glob(name, recursive=True)), key=str)  # noqa: PTH207
        found = [path for path in found if not path.is_dir()]
        if not found:
            raise DataError(f"{name}: no file matches this pattern")
    return [_input_file(path, source) for path in found]


def files_below(folder: Path, suffixes: tuple[str, ...]) -> list[Path]:
    """Finds the files in a folder, and in those below it, that end in one of some suffixes, compressed or not.

    Raises:
        DataError: there is none.
    """
    found = [
        Path(parent, name)
        for parent, _, names in os.walk(folder)
        for name in names
        if without_compression(name).endswith(suffixes)
    ]
    if not found:
        raise DataError(
            f"{folder}: no file in this folder ends in {', '.join(suffixes)}; give a pattern for other names"
        )
    return sorted(found, key=str)


def without_compression(name: str) -> str:
    """Returns the name of a file in lower case, without a suffix of compression."""
    name = name.lower()
    return name.removesuffix(next((suffix for suffix in _COMPRESSED if name.endswith(suffix)), ""))


def _input_file(path: Path, source: str | None = None) -> InputFile:
    try:
        status = path.stat()
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror}") from None
    if not stat.S_ISREG(status.st_mode):
        raise DataError(f"{path}: is no regular file; write the records to a file first, or pipe them to '-'")
    if not os.access(path, os.R_OK):
        raise DataError(f"{path}: cannot be read: permission denied")
    return InputFile(
        path,
        status.st_size,
        status.st_mtime_ns,
        source or path.name.split(".")[0] or path.name,
        source is not None,
        status.st_ctime_ns,
        status.st_ino,
    )


class InputHasher:
    """SHA-256 of the input files, taken by a thread of its own that keeps near those who read them.

    It runs ahead of them by a gigabyte at most, so that all read a file while it is in the page cache.

    Args:
        files: what to hash, but standard input, which is told by ``add``.
    """

    def __init__(self, files: Sequence[InputFile]) -> None:
        self._files = [file for file in files if file.path != STDIN]
        self._digests: dict[Path, str] = {}
        self._stdin = hashlib.sha256()
        self._allowed = _AHEAD_BYTES
        self._changed = threading.Condition()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="mfm-hash", daemon=True)

    def start(self) -> None:
        """Begins, unless it has."""
        if self._thread.ident is None:
            self._thread.start()

    def add(self, data: bytes) -> None:
        """Takes in bytes of standard input."""
        self._stdin.update(data)

    def reached(self, count: int) -> None:
        """Says that so many more bytes have been read by others."""
        with self._changed:
            self._allowed += count
            self._changed.notify()

    def digest(self, path: Path) -> str:
        """Hex digest of a file, or of what was taken in of standard input.

        Raises:
            OSError: it could not be read.
        """
        self.start()
        self.reached(1 << 62)
        self._thread.join()
        if self._error is not None:
            raise self._error
        return self._stdin.hexdigest() if path == STDIN else self._digests[path]

    def stop(self) -> None:
        """Ends the thread."""
        with self._changed:
            self._files, self._allowed = [], 1 << 62
            self._changed.notify()
        if self._thread.ident is not None:
            self._thread.join()

    def _run(self) -> None:
        try:
            buffer = memoryview(bytearray(_CHUNK_BYTES))
            for file in list(self._files):
                hash_ = hashlib.sha256()
                with file.path.open("rb", buffering=0) as stream:
                    while count := stream.readinto(buffer):
                        self._wait_for(count)
                        if not self._files:
                            return
                        hash_.update(buffer[:count])
                self._digests[file.path] = hash_.hexdigest()
        except OSError as error:
            self._error = error

    def _wait_for(self, count: int) -> None:
        with self._changed:
            while self._allowed < count:
                self._changed.wait()
            self._allowed -= count


def check_unchanged(files: Sequence[InputFile]) -> None:
    """Checks that the files are what they were when the run began.

    Raises:
        DataError: one has another size or was written to.
    """
    for file in files:
        if file.path == STDIN:
            continue
        now = _input_file(file.path)
        if (now.size, now.modified) != (file.size, file.modified):
            raise DataError(f"{file.path}: was changed while it was read; run again when it is complete")
