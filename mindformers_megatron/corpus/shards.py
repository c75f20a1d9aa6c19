"""How documents travel between stages on disk: Parquet files of bounded size, compressed with zstd.

The columns are the text and those of ``<prefix>.docs.parquet``, so that provenance is carried along as it is. The same
documents make the same bytes, whatever batches they came in.
"""

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mindformers_megatron.corpus.documents import Document, Origin, meta_from_json, meta_to_json, utf8_bytes
from mindformers_megatron.errors import DataError
from mindformers_megatron.format.provenance import docs_schema
from mindformers_megatron.format.staged import Staged
from mindformers_megatron.format.staged_parquet import StagedParquet

if TYPE_CHECKING:
    import pyarrow as pa

# Of text in a row group: what a reader holds in memory at a time.
_GROUP_BYTES, _GROUP_ROWS = 16 << 20, 1 << 14
_LEVEL = 3


def shard_schema() -> "pa.Schema":
    """The columns: ``text``, and those of ``docs_schema()``, of which ``id`` is never null here."""
    import pyarrow as pa

    return pa.schema([pa.field("text", pa.string(), nullable=False), *docs_schema()])


class ShardWriter(Staged):
    """Writes documents to a shard. It appears, whole, at the end of the block, and not at all if that ends in an error.

    Memory is that of one row group, 16 MiB of text or one longer document.

    Args:
        path: the file to be.

    Raises:
        ConfigError: it cannot be created.
    """

    def __init__(self, path: Path) -> None:
        self._file = StagedParquet(
            path, shard_schema(), compression_level=_LEVEL, write_statistics=False, write_page_checksum=True
        )
        self._waiting: list[Document] = []
        self._waiting_bytes = 0
        self.documents = 0

    def add(self, documents: Iterable[Document]) -> None:
        """Appends documents."""
        for document in documents:
            self._waiting.append(document)
            self._waiting_bytes += utf8_bytes(document.text)
            if self._waiting_bytes >= _GROUP_BYTES or len(self._waiting) >= _GROUP_ROWS:
                self._flush()

    def close(self) -> None:
        """Completes the file and gives it its name."""
        self._flush()
        self._file.close()

    def abort(self) -> None:
        """Removes what was written; nothing, if the file has its name."""
        self._file.abort()

    def _flush(self) -> None:
        if self._waiting:
            self._file.write(_to_arrow(self._waiting, self._file.schema))
            self.documents += len(self._waiting)
            self._waiting, self._waiting_bytes = [], 0


def write_shard(path: Path, documents: Iterable[Document]) -> int:
    """Writes documents to a shard, whole or not at all; returns how many they were."""
    with ShardWriter(path) as writer:
        writer.add(documents)
    return writer.documents


def read_shard(path: Path) -> Iterator[list[Document]]:
    """Yields the documents of a shard, a row group at a time, in order.

    Raises:
        DataError: the file is missing, damaged, or no shard.
    """
    for table in read_columns(path, shard_schema().names):
        columns = [table.column(name).to_pylist() for name in shard_schema().names]
        files: dict[str, str] = {}
        yield [
            Document(text, id_, source, Origin(files.setdefault(file, file), line, offset), meta_from_json(meta))
            for text, id_, source, file, line, offset, meta in zip(*columns, strict=True)
        ]


def read_columns(path: Path, columns: Sequence[str]) -> Iterator["pa.Table"]:
    """Yields some columns of a shard as tables, a row group at a time, in order.

    Args:
        path: the shard.
        columns: names out of ``shard_schema()``.

    Raises:
        DataError: the file is missing, damaged, or no shard.
    """
    with _open(path) as file:
        for group in range(file.num_row_groups):
            with _naming(path):
                table = file.read_row_group(group, columns=list(columns), use_threads=False)
            yield table


def count_documents(path: Path) -> int:
    """Documents in a shard, from its footer.

    Raises:
        DataError: the file is missing, damaged, or no shard.
    """
    with _open(path) as file:
        return int(file.metadata.num_rows)


class _naming:  # noqa: N801 - reads as a statement
    """Turns what Parquet raises into one line that names the file."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = path

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: BaseException | None, traceback: Any) -> None:
        import pyarrow as pa

        if isinstance(error, FileNotFoundError):
            raise DataError(f"{self._path}: not found") from None
        if isinstance(error, pa.ArrowException | OSError):
            raise DataError(f"{self._path}: cannot be read as Parquet: {str(error).splitlines()[0]}") from None


def _open(path: Path) -> Any:
    import pyarrow.parquet as pq

    with _naming(path):
        file = pq.ParquetFile(path, page_checksum_verification=True)
    if not file.schema_arrow.equals(shard_schema()):
        columns = file.schema_arrow.names
        file.close()
        raise DataError(f"{path}: columns {columns}, expected those of a shard: {shard_schema().names}")
    return file


def _to_arrow(documents: Sequence[Document], schema: "pa.Schema") -> "pa.RecordBatch":
    import pyarrow as pa

    columns = [
        [document.text for document in documents],
        [document.id for document in documents],
        [document.source for document in documents],
        [document.origin.file for document in documents],
        [document.origin.line for document in documents],
        [document.origin.byte_offset for document in documents],
        [meta_to_json(document.meta) for document in documents],
    ]
    arrays = [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
