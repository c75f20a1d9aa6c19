"""Documents as rows of a table: Parquet, Arrow, and folders as ``datasets`` of Hugging Face saves them.

A column holds lists of token ids. Beside it may be the columns of provenance, and ``sequence_lengths`` where documents
have several sequences.
"""

import json
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mindformers_megatron.errors import ConfigError, DataError
from mindformers_megatron.format.documents import DocumentBatch
from mindformers_megatron.format.provenance import docs_schema

SUFFIXES = (".parquet", ".pq", ".arrow")
SEQUENCES = "sequence_lengths"
_VALUES = 1 << 22
_MOST_ROWS = 1 << 16


def table_files(path: Path) -> list[Path]:
    """The files of a table, in order.

    Args:
        path: a file, or a folder: one that ``Dataset.save_to_disk`` wrote, or one of Parquet or Arrow files.

    Raises:
        ConfigError: the folder holds no table, or several.
        DataError: it was saved with rows in another order than in its files.
    """
    if not path.is_dir():
        return [path]
    state = path / "state.json"
    if state.is_file():
        return _saved_files(path, state)
    if (path / "dataset_dict.json").is_file():
        splits = sorted(child.name for child in path.iterdir() if (child / "state.json").is_file())
        raise ConfigError(f"{path}: has the splits {', '.join(splits)}; give the folder of one of them")
    for suffixes in ((".parquet", ".pq"), (".arrow",)):
        files = sorted(child for child in path.iterdir() if child.suffix in suffixes)
        if files:
            return files
    raise ConfigError(f"{path}: no {', '.join(SUFFIXES)} file in this folder")


def read_table(files: Iterable[Path], column: str) -> Iterator[tuple[DocumentBatch, Any]]:
    """Reads documents from a column of lists.

    Args:
        files: of the table, in order.
        column: its name.

    Yields:
        Some documents, and a ``pyarrow.RecordBatch`` of where they come from, None if the table does not say.

    Raises:
        DataError: a file cannot be read, has no such column, or a row is no list of integers.
    """
    first = 0
    for path in files:
        for batch in _batches(path, column):
            documents = _documents(path, batch, column, first)
            yield documents, _provenance(batch)
            first += len(documents)


def write_table(
    path: Path, batches: Iterable[tuple[DocumentBatch, Any]], column: str, dtype: np.dtype[Any], *, sequences: bool
) -> int:
    """Writes documents as rows; the file appears whole or not at all.

    Args:
        path: a ``.parquet``, or an ``.arrow``, which is written as a stream, as ``datasets`` reads it.
        batches: documents and their provenance, as ``read_table`` yields them; all or none with provenance.
        column: where the tokens go.
        dtype: of the tokens.
        sequences: write the lengths of sequences too.

    Returns:
        The number of rows.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    from mindformers_megatron.format.atomic import open_atomically

    rows = 0
    with open_atomically(path) as file, ExitStack() as stack:
        writer: Any = None
        for documents, provenance in batches:
            table = _table(documents, provenance, column, dtype, sequences=sequences)
            if writer is None:
                if path.suffix == ".arrow":
                    writer = stack.enter_context(pa.ipc.new_stream(file, table.schema))
                else:
                    writer = stack.enter_context(pq.ParquetWriter(file, table.schema, compression="zstd"))
            writer.write_table(table)
            rows += len(documents)
    return rows


def _saved_files(folder: Path, state: Path) -> list[Path]:
    try:
        content = json.loads(state.read_bytes())
        names = [str(entry["filename"]) for entry in content["_data_files"]]
        reordered = bool(content.get("_indices_files"))
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise DataError(f"{state}: is not as datasets writes it: {error!r}") from None
    if reordered:
        raise DataError(f"{folder}: its rows are in another order than in its files; save it after flatten_indices()")
    if any(Path(name).name != name for name in names):
        raise DataError(f"{state}: names files outside of its folder")
    return [folder / name for name in names]


def _batches(path: Path, column: str) -> Iterator[Any]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    wanted = {column, SEQUENCES, *docs_schema().names}
    try:
        with ExitStack() as stack:
            if path.suffix == ".arrow":
                reader = _arrow_reader(path, stack)
                _check_column(path, reader.schema, column)
                yield from reader
                return
            file = stack.enter_context(pq.ParquetFile(path))
            _check_column(path, file.schema_arrow, column)
            names = [name for name in file.schema_arrow.names if name in wanted]
            yield from file.iter_batches(_rows_at_once(file, column), columns=names)
    except (pa.ArrowException, OSError) as error:
        raise DataError(f"{path}: cannot be read: {str(error).splitlines()[0]}") from None


def _arrow_reader(path: Path, stack: ExitStack) -> Any:
    import pyarrow as pa

    file = stack.enter_context(pa.memory_map(str(path)))
    if file.read(6) != b"ARROW1":
        file.seek(0)
        return pa.ipc.open_stream(file)
    file.seek(0)
    reader = pa.ipc.open_file(file)
    batches = (reader.get_batch(place) for place in range(reader.num_record_batches))
    return pa.RecordBatchReader.from_batches(reader.schema, batches)


def _rows_at_once(file: Any, column: str) -> int:
    rows = max(file.metadata.num_rows, 1)
    values = 0
    for group in range(file.metadata.num_row_groups):
        description = file.metadata.row_group(group)
        for place in range(description.num_columns):
            if description.column(place).path_in_schema.split(".")[0] == column:
                values += description.column(place).num_values
    return int(max(min(_VALUES * rows // max(values, 1), _MOST_ROWS), 1))


def _check_column(path: Path, schema: Any, column: str) -> None:
    import pyarrow as pa

    if column not in schema.names:
        raise DataError(f"{path}: has no column {column!r} (it has {', '.join(schema.names)}); give it as --column")
    kind = schema.field(column).type
    lists = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)
    if not any(check(kind) for check in lists) or not pa.types.is_integer(kind.value_type):
        raise DataError(f"{path}: column {column!r} is of {kind}, expected lists of integers")


def _documents(path: Path, batch: Any, column: str, first: int) -> DocumentBatch:
    tokens, lengths = _lists(path, batch, column, first)
    if SEQUENCES not in batch.schema.names:
        return DocumentBatch(
            first=first,
            tokens=tokens,
            lengths=lengths[lengths > 0].astype(np.int32),
            sequences=(lengths > 0).astype(np.int64),
            modes=None,
        )
    sizes, sequences = _lists(path, batch, SEQUENCES, first)
    ends = np.concatenate(([0], np.cumsum(sizes, dtype=np.int64)))
    edges = np.concatenate(([0], np.cumsum(sequences)))
    wrong = np.flatnonzero(np.diff(ends[edges]) != lengths)
    if wrong.size or (sizes < 0).any():
        row = first + (int(wrong[0]) if wrong.size else 0)
        raise DataError(f"{path}: {SEQUENCES} of row {row:,} do not add up to its tokens")
    return DocumentBatch(first=first, tokens=tokens, lengths=sizes.astype(np.int32), sequences=sequences, modes=None)


def _lists(path: Path, batch: Any, column: str, first: int) -> tuple[NDArray[Any], NDArray[np.int64]]:
    import pyarrow.compute as pc

    array = batch.column(column)
    if array.null_count:
        row = int(np.flatnonzero(array.is_null().to_numpy(zero_copy_only=False))[0])
        raise DataError(f"{path}: row {first + row:,} has no {column}")
    lengths = pc.list_value_length(array).to_numpy(zero_copy_only=False).astype(np.int64)
    values = array.flatten()
    if values.null_count:
        place = int(np.flatnonzero(values.is_null().to_numpy(zero_copy_only=False))[0])
        row = int(np.searchsorted(np.cumsum(lengths), place, "right"))
        raise DataError(f"{path}: row {first + row:,} has a null among its {column}")
    return values.to_numpy(zero_copy_only=False), lengths


def _provenance(batch: Any) -> Any:
    schema = docs_schema()
    if not set(schema.names) <= set(batch.schema.names):
        return None
    rows = batch.select(schema.names)
    if rows.schema.types != schema.types or any(
        rows.column(field.name).null_count for field in schema if not field.nullable
    ):
        return None
    return rows.cast(schema)


def _table(documents: DocumentBatch, provenance: Any, column: str, dtype: np.dtype[Any], *, sequences: bool) -> Any:
    import pyarrow as pa

    tokens = documents.tokens.astype(dtype.newbyteorder("="), copy=False)
    columns = {column: _list_array(documents.edges(), tokens)}
    if sequences:
        columns[SEQUENCES] = _list_array(np.concatenate(([0], np.cumsum(documents.sequences))), documents.lengths)
    if provenance is not None:
        columns |= {name: provenance.column(name) for name in provenance.schema.names}
    fields = [pa.field(name, values.type) for name, values in columns.items()]
    return pa.Table.from_arrays(list(columns.values()), schema=pa.schema(fields))


def _list_array(edges: NDArray[np.int64], values: NDArray[Any]) -> Any:
    import pyarrow as pa

    # Not the larger kind of list, which few programs read; a document has less than 2^31 tokens in a sequence.
    return pa.ListArray.from_arrays(pa.array(edges, pa.int32()), pa.array(values))
