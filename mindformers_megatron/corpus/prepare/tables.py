"""What global steps found, with the documents called by their names: tables for people to look things up in."""

import contextlib
import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from mindformers_megatron.corpus.dedup.duplicates import WHOLE, Duplicates, duplicates_in
from mindformers_megatron.corpus.dedup.earlier import Nearest
from mindformers_megatron.corpus.prepare.contamination import SPANS
from mindformers_megatron.corpus.prepare.exact import TABLE
from mindformers_megatron.corpus.prepare.exchange import Shard
from mindformers_megatron.corpus.prepare.growing import INDEXED, indexed_in
from mindformers_megatron.corpus.shards import read_columns
from mindformers_megatron.format.atomic import open_atomically

I64 = npt.NDArray[np.int64]

_NAMES_SCHEMA = {"id": pa.string(), "source": pa.string(), "file": pa.string(), "line": pa.int64()}
_COLUMNS = tuple(_NAMES_SCHEMA)
# Of a row with two names, while it is put together.
_BYTES_OF_ROW = 1024
_FEWEST_ROWS = 1 << 12


@dataclass(frozen=True, slots=True)
class Names:
    """Documents by number.

    Attributes:
        numbers: int64[N], ascending.
        rows: a table of ``id``, ``source``, ``file`` and ``line``, one row each.
    """

    numbers: I64
    rows: Any

    def of(self, numbers: I64, prefix: str = "") -> dict[str, Any]:
        """Columns for documents in the order asked; every one must be among those named."""
        taken = self.rows.take(np.searchsorted(self.numbers, numbers))
        return {prefix + name: taken.column(name).combine_chunks() for name in _COLUMNS}


def name_documents(shards: Sequence[Shard], numbers: I64) -> Names:
    """Looks up documents; only columns without text are read, of shards that have any of them.

    Args:
        shards: of the stage that the numbers are of.
        numbers: int64, in any order.
    """
    wanted = np.unique(numbers)
    tables = []
    for shard in shards:
        low, high = np.searchsorted(wanted, (shard.first, shard.first + shard.documents))
        if low == high:
            continue
        begin = shard.first
        for table in read_columns(shard.path, _COLUMNS):
            end = begin + table.num_rows
            first, last = np.searchsorted(wanted, (begin, end))
            if first < last:
                tables.append(table.take(wanted[first:last] - begin))
            begin = end
    schema = pa.schema(_NAMES_SCHEMA)
    rows = pa.concat_tables([table.cast(schema) for table in tables]) if tables else schema.empty_table()
    return Names(wanted, rows)


def write_duplicate_table(found: Path, shards: Sequence[Shard], path: Path, memory_bytes: int) -> None:
    """Writes what was dropped as a duplicate, and what is kept instead.

    Columns: ``id``, ``source``, ``file``, ``line`` of the document, ``part`` (its line or paragraph, from 0; null: the
    whole), ``similarity``, and ``kept_id``, ``kept_source``, ``kept_file``, ``kept_line``. Those that resemble
    documents of an index follow; of these only the id is known.

    Args:
        found: what the step has found.
        shards: the documents that it looked at.
        path: of the table.
        memory_bytes: what rows and names may take; with less, shards are looked into more often.
    """

    def named(duplicates: Duplicates) -> dict[str, Any]:
        names = name_documents(shards, np.concatenate((duplicates.documents, duplicates.kept)))
        return {
            **names.of(duplicates.documents),
            "part": pa.array(duplicates.parts, mask=duplicates.parts == WHOLE),
            "similarity": pa.array(duplicates.similarity),
            **names.of(duplicates.kept, "kept_"),
        }

    def named_indexed(indexed: Nearest) -> dict[str, Any]:
        count = len(indexed.ids)
        kept_ids = {"kept_id": pa.array(indexed.ids, pa.string())}
        return {
            **name_documents(shards, indexed.places).of(indexed.places),
            "part": pa.nulls(count, pa.int32()),
            "similarity": pa.array(indexed.similarity),
            **{f"kept_{name}": pa.nulls(count, kind) for name, kind in _NAMES_SCHEMA.items()} | kept_ids,
        }

    at_once = _rows_at_once(memory_bytes)
    is_indexed = (found / INDEXED).exists()
    indexed = map(named_indexed, indexed_in(found / INDEXED, at_once) if is_indexed else ())
    _write(path, itertools.chain(map(named, duplicates_in(found / TABLE, at_once)), indexed))


def write_contamination_table(found: Path, shards: Sequence[Shard], path: Path, memory_bytes: int) -> None:
    """Writes where evaluation items stand in documents.

    Columns: ``id``, ``source``, ``file``, ``line`` of the document, ``start`` and ``end`` (characters of its text as it
    came to the step), ``set`` and ``item``.

    Args:
        found: what the step has found.
        shards: the documents that it looked at.
        path: of the table.
        memory_bytes: see ``write_duplicate_table``.
    """

    def named(spans: Any) -> dict[str, Any]:
        numbers = spans.column("document").to_numpy()
        return {
            **name_documents(shards, numbers).of(numbers),
            **{name: spans.column(name) for name in ("start", "end", "set", "item")},
        }

    with pq.ParquetFile(found / SPANS) as file:
        empty = pa.RecordBatch.from_pylist([], schema=file.schema_arrow)
        # Without a row group pyarrow fails where there is nothing to read.
        batches = file.iter_batches(batch_size=_rows_at_once(memory_bytes)) if file.num_row_groups else ()
        _write(path, map(named, itertools.chain([empty], batches)))


def _rows_at_once(memory_bytes: int) -> int:
    return max(memory_bytes // _BYTES_OF_ROW, _FEWEST_ROWS)


def _write(path: Path, chunks: Iterable[dict[str, Any]]) -> None:
    """Writes chunks of rows, of which the first may be empty."""
    with open_atomically(path) as file, contextlib.ExitStack() as stack:
        writer = None
        for columns in chunks:
            table = pa.table(columns)
            writer = writer or stack.enter_context(pq.ParquetWriter(file, table.schema, compression="zstd"))
            if table.num_rows:
                writer.write_table(table)
