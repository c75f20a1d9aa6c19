"""Reading single records of raw files again, where provenance says that they are."""

import contextlib
import hashlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, BinaryIO

from mindformers_megatron.errors import DataError
from mindformers_megatron.format.metadata import SourceInfo
from mindformers_megatron.tokenization.inputs import STDIN
from mindformers_megatron.tokenization.parquet import read_rows, row_groups
from mindformers_megatron.tokenization.records import Record, RecordError, parse_record, record_of
from mindformers_megatron.tokenization.streams import compression_of, open_compressed

_HASHED_AT_ONCE = 1 << 22
_SKIPPED_AT_ONCE = 1 << 22
_ROWS = 256

OnBytes = Callable[[int], None]


class RawRecords:
    """The records that a pair was made from. Cheapest if asked for in the order of their places.

    Args:
        sources: the files as they were, from the pair's metadata; a file is compared with that before it is read.
        folder: where paths that are not absolute begin.
        key: where the text of a record is.
        on_bytes: told how many bytes of files were hashed or read since it was last told.
    """

    def __init__(
        self, sources: tuple[SourceInfo, ...], folder: Path, key: str, on_bytes: OnBytes = lambda count: None
    ) -> None:
        self._known = {source.path: source for source in sources}
        self._folder = folder
        self._key = key
        self._on_bytes = on_bytes
        self._name = ""
        self._reader: _Reader | None = None

    def read(self, row: dict[str, Any]) -> Record:
        """The record of a row of provenance.

        Raises:
            DataError: the file is missing or no longer what it was, or the record is not there.
        """
        if row["file"] != self._name or self._reader is None:
            self.close()
            self._name, self._reader = row["file"], self._open(row["file"])
        place = f"{self._name}, line {row['line']:,}"
        try:
            record = self._reader.read(row["line"], row["byte_offset"])
        except RecordError as error:
            raise DataError(f"{place}: {error}; it is no longer the record that the pair was made from") from None
        self._on_bytes(self._reader.size)
        if record.id != row["id"]:
            raise DataError(
                f"{place}: found id {record.id!r}, expected {row['id']!r}; the file is no longer what it was"
            )
        return record

    def close(self) -> None:
        """Closes the file that was read last."""
        if self._reader is not None:
            self._reader.close()
        self._reader = None

    def _open(self, name: str) -> "_Reader":
        if Path(name) == STDIN:
            raise DataError(f"{self._folder}: the pair was made from standard input, which cannot be read again")
        path = self._folder / name
        if not path.is_file():
            raise DataError(f"{path}: no such file; say where the raw text is with --sources FOLDER")
        known = self._known.get(name)
        if known is not None:
            self._compare(path, known)
        if path.suffix in (".parquet", ".pq"):
            return _RowReader(path, self._key)
        return _LineReader(path, self._key)

    def _compare(self, path: Path, known: SourceInfo) -> None:
        size = path.stat().st_size
        if size != known.size:
            raise DataError(f"{path}: {size:,} bytes, but the pair was made from {known.size:,}; it is another version")
        if known.sha256 is None:
            return
        digest = hashlib.sha256()
        with path.open("rb", buffering=0) as file:
            while data := file.read(_HASHED_AT_ONCE):
                digest.update(data)
                self._on_bytes(len(data))
        if digest.hexdigest() != known.sha256:
            raise DataError(f"{path}: sha256 is not that of the file which the pair was made from; it was changed")


class _Reader:
    """Reads records of one file.

    Attributes:
        size: bytes of the record that was read last; 0 if that cannot be said.
    """

    size = 0

    def read(self, line: int, offset: int) -> Record:
        raise NotImplementedError

    def close(self) -> None:
        raise NotImplementedError


class _LineReader(_Reader):
    def __init__(self, path: Path, key: str) -> None:
        self._path, self._key = path, key
        self._compression = compression_of(path)
        self._stack = ExitStack()
        self._file: BinaryIO = self._opened()
        self._position = 0

    def read(self, line: int, offset: int) -> Record:
        if self._compression is None:
            self._file.seek(offset)
        else:
            self._skip_to(offset)
        data = self._file.readline()
        self.size = len(data)
        self._position = offset + self.size
        if not data:
            raise RecordError(f"the file ends before byte {offset:,}")
        return parse_record(data, [self._key])

    def close(self) -> None:
        # Being left in the midst of its data is no damage.
        with contextlib.suppress(DataError):
            self._stack.close()

    def _opened(self) -> BinaryIO:
        if self._compression is None:
            try:
                return self._stack.enter_context(self._path.open("rb"))
            except OSError as error:
                raise DataError(f"{self._path}: cannot be read: {error.strerror}") from None
        return self._stack.enter_context(open_compressed(self._path, self._compression))[0]

    def _skip_to(self, offset: int) -> None:
        if offset < self._position:
            self.close()
            self._stack = ExitStack()
            self._file, self._position = self._opened(), 0
        while self._position < offset:
            data = self._file.read(min(_SKIPPED_AT_ONCE, offset - self._position))
            if not data:
                raise RecordError(f"the content ends at byte {self._position:,}")
            self._position += len(data)


class _RowReader(_Reader):
    def __init__(self, path: Path, key: str) -> None:
        self._path, self._key = path, key
        self._sizes = row_groups(path)
        self._rows: Iterator[tuple[int, dict[str, Any]]] = iter(())
        self._group, self._reached = -1, 0

    def read(self, line: int, offset: int) -> Record:
        first = 1
        for group, size in enumerate(self._sizes):
            if line < first + size:
                return record_of(self._row(group, first, line), [self._key])
            first += size
        raise RecordError(f"the file has {first - 1:,} rows")

    def close(self) -> None:
        self._rows = iter(())

    def _row(self, group: int, first: int, line: int) -> dict[str, Any]:
        if group != self._group or line <= self._reached:
            batches = read_rows(self._path, group, [self._key], _ROWS)
            self._rows = enumerate((row for batch in batches for row in batch), first)
            self._group = group
        for number, row in self._rows:
            if number == line:
                self._reached = line
                return row
        raise RecordError(f"its row group {group} ends before")
