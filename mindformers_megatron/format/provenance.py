"""``<prefix>.docs.parquet``: where each document of a pair comes from."""

import contextlib
import os
from collections.abc import Iterator, Sequence
from typing import Any

from mindformers_megatron.errors import DataError
from mindformers_megatron.format.paths import docs_path, prefix_of
from mindformers_megatron.format.staged import Staged
from mindformers_megatron.format.staged_parquet import StagedParquet

_ROWS_PER_GROUP = 1 << 17
_BYTES_PER_GROUP = 32 << 20


def docs_schema() -> Any:
    """The columns, as a ``pyarrow.Schema``."""
    import pyarrow as pa

    text, integer = pa.string(), pa.int64()
    return pa.schema(
        [
            ("id", text),
            pa.field("source", text, nullable=False),
            pa.field("file", text, nullable=False),
            pa.field("line", integer, nullable=False),
            pa.field("byte_offset", integer, nullable=False),
            ("meta", text),
        ]
    )


def count_docs(prefix: str | os.PathLike[str]) -> int | None:
    """Rows of a pair's file, read from its end; None if there is none.

    Raises:
        DataError: it cannot be read or has other columns.
    """
    if not docs_path(prefix_of(prefix)).exists():
        return None
    with open_docs(prefix) as file:
        return int(file.metadata.num_rows)


def read_docs(prefix: str | os.PathLike[str], begin: int = 0, end: int | None = None) -> Iterator[Any]:
    """Reads the rows of documents ``[begin, end)`` of a pair, in bounded memory; all of them if nothing is said.

    Yields:
        ``pyarrow.RecordBatch`` of ``docs_schema()``.

    Raises:
        DataError: there is no such file, it cannot be read or has other columns, or it ends before ``end``.
    """
    with open_docs(prefix) as file:
        rows = int(file.metadata.num_rows)
        stop = rows if end is None else end
        if not 0 <= begin <= stop <= rows:
            raise DataError(f"{docs_path(prefix_of(prefix))}: {rows} rows, asked for rows {begin} to {stop}")
        first = 0
        for group in range(file.metadata.num_row_groups):
            count = file.metadata.row_group(group).num_rows
            if begin < first + count and first < stop:
                position = first
                for batch in file.iter_batches(row_groups=[group]):
                    low, high = max(begin, position), min(stop, position + batch.num_rows)
                    if low < high:
                        yield batch.slice(low - position, high - low)
                    position += batch.num_rows
            first += count


@contextlib.contextmanager
def open_docs(prefix: str | os.PathLike[str]) -> Iterator[Any]:
    """Opens a pair's file: a ``pyarrow.parquet.ParquetFile`` with the columns of ``docs_schema()``.

    Raises:
        DataError: there is no such file, it cannot be read or has other columns.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = docs_path(prefix_of(prefix))
    try:
        with pq.ParquetFile(path) as file:
            if not file.schema_arrow.equals(docs_schema()):
                raise DataError(f"{path}: columns {file.schema_arrow.names}, expected {docs_schema().names}")
            yield file
    except FileNotFoundError:
        raise DataError(f"{path}: not found; every part needs one, or leave provenance out") from None
    except (pa.ArrowException, OSError) as error:
        raise DataError(f"{path}: cannot be read as Parquet: {str(error).splitlines()[0]}") from None


class DocsWriter(Staged):
    """Writes one row per document, in the order of the documents, in bounded memory.

    Columns: ``id`` (text or null), ``source``, ``file``, ``line`` (from 1), ``byte_offset`` and ``meta`` (JSON text or
    null). The file appears, whole, at the end of the block, and not at all if the block ends in an exception. Write it
    after the pair or together with it: publishing a pair removes an older file of that name.

    Args:
        prefix: of the pair.

    Raises:
        ConfigError: the file cannot be created.
    """

    def __init__(self, prefix: str | os.PathLike[str]) -> None:
        import pyarrow as pa

        self._arrow: Any = pa
        self._schema = docs_schema()
        self._path = docs_path(prefix_of(prefix))
        self._waiting: list[Any] = []
        self._waiting_rows = self._waiting_bytes = self._rows = 0
        self._file = StagedParquet(self._path, self._schema, exclusive=True)

    def add(
        self,
        ids: Sequence[str | None],
        *,
        source: str,
        file: str,
        lines: Sequence[int],
        byte_offsets: Sequence[int],
        metas: Sequence[str | None],
    ) -> None:
        """Appends rows for documents of one input file.

        Args:
            ids: the record's own id, one per document.
            source: the name its source goes by.
            file: the input file.
            lines: from 1.
            byte_offsets: where the record begins in the (uncompressed) file.
            metas: the fields that were kept, as JSON text.

        Raises:
            DataError: a text is not valid Unicode.
        """
        count = len(ids)
        columns: list[tuple[str, Sequence[Any]]] = [
            ("id", ids),
            ("source", [source] * count),
            ("file", [file] * count),
            ("line", lines),
            ("byte_offset", byte_offsets),
            ("meta", metas),
        ]
        try:
            arrays = [self._arrow.array(values, self._schema.field(name).type) for name, values in columns]
        except UnicodeEncodeError as error:
            raise DataError(
                f"{self._path}: rows from {self._rows} on, of {file}: a text is not valid Unicode "
                f"({error.reason}: {error.object[error.start : error.end]!r}); mend the record or skip it"
            ) from None
        self._append(self._arrow.RecordBatch.from_arrays(arrays, schema=self._schema))

    def add_table(self, table: Any) -> None:
        """Appends rows that are columns already.

        Args:
            table: a ``pyarrow.Table`` of ``docs_schema()``.
        """
        # Not always: to cast imports a part of Arrow that takes 50 ms.
        if not table.schema.equals(self._schema):
            table = table.cast(self._schema)
        for batch in table.to_batches():
            self._append(batch)

    def add_from(self, prefix: str | os.PathLike[str], begin: int = 0, end: int | None = None) -> None:
        """Appends rows of another pair, as when pairs are joined or split.

        Args:
            prefix: of the other pair.
            begin: its first document.
            end: the first that is left out; None: all from ``begin`` on.

        Raises:
            DataError: the other pair has no such file, or it cannot be read or has other columns.
        """
        for batch in read_docs(prefix, begin, end):
            self._append(batch)

    def add_batch(self, batch: Any) -> None:
        """Appends rows that were read from another pair.

        Args:
            batch: a ``pyarrow.RecordBatch`` of ``docs_schema()``.
        """
        self._append(batch)

    @property
    def rows(self) -> int:
        """Rows added so far."""
        return self._rows

    def close(self) -> None:
        """Completes the file and gives it its name."""
        self._flush()
        self._file.close()

    def abort(self) -> None:
        """Removes what was written."""
        self._waiting.clear()
        self._file.abort()

    def _append(self, batch: Any) -> None:
        self._waiting.append(batch)
        self._waiting_rows += batch.num_rows
        self._waiting_bytes += batch.nbytes
        self._rows += batch.num_rows
        if self._waiting_rows >= _ROWS_PER_GROUP or self._waiting_bytes >= _BYTES_PER_GROUP:
            self._flush()

    def _flush(self) -> None:
        if self._waiting_rows:
            self._file.write(self._arrow.Table.from_batches(self._waiting, self._schema))
        self._waiting.clear()
        self._waiting_rows = self._waiting_bytes = 0
