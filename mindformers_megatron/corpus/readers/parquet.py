"""Documents in Parquet: a row each."""

import datetime
import decimal
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from mindformers_megatron.corpus.documents import Document, Origin
from mindformers_megatron.corpus.rejects import Reject
from mindformers_megatron.errors import DataError

if TYPE_CHECKING:
    from mindformers_megatron.corpus.readers.parts import Slice
    from mindformers_megatron.corpus.readers.sources import Source

_ROWS = 256


def row_groups(path: Path) -> list[tuple[int, int]]:
    """(rows, uncompressed bytes) of each row group of a file.

    Raises:
        DataError: it cannot be read as Parquet.
    """
    with _opened(path) as file:
        metadata = file.metadata
        groups = [metadata.row_group(group) for group in range(metadata.num_row_groups)]
        return [(group.num_rows, group.total_byte_size) for group in groups]


def read_parquet(piece: "Slice", source: "Source", on_reject: Callable[[Reject], None]) -> Iterator[Document]:
    """Yields the documents of some row groups, in order.

    Raises:
        DataError: the file is damaged, or has no such column, or one of another type.
    """
    import pyarrow as pa

    path = piece.file.input.path
    with _opened(path) as file:
        columns = _columns(file.schema_arrow, source, path)
        stop = file.num_row_groups if piece.stop is None else piece.stop
        batches = file.iter_batches(
            _ROWS, row_groups=list(range(piece.start, stop)), columns=list(columns), use_threads=False
        )
        row = piece.first_line - 1
        while True:
            try:
                batch = next(batches, None)
                fields = [] if batch is None else batch.to_pylist()
            except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
                raise DataError(f"{path}, rows from {row + 1:,} on: {str(error).splitlines()[0]}") from None
            if batch is None:
                return
            for record in fields:
                row += 1
                document = _document(record, source, piece, row)
                if document is None:
                    shown = str({name: value for name, value in record.items() if name != source.text_key})[:200]
                    on_reject(Reject(str(path), row, -1, f"{source.text_key!r} is null", shown))
                else:
                    yield document


def _columns(schema: Any, source: "Source", path: Path) -> list[str]:
    import pyarrow as pa

    names = schema.names
    if source.text_key not in names:
        raise DataError(f"{path}: no column {source.text_key!r} (its columns: {', '.join(names)}); give text_key")
    type_ = schema.field(source.text_key).type
    if not (pa.types.is_string(type_) or pa.types.is_large_string(type_) or pa.types.is_null(type_)):
        raise DataError(f"{path}: column {source.text_key!r} is of type {type_}, not text")
    wanted = [source.text_key, source.id_key, "meta", *source.meta_keys]
    if source.name is None:
        wanted.append("source")
    return [name for name in dict.fromkeys(wanted) if name in names]


def _document(record: dict[str, Any], source: "Source", piece: "Slice", row: int) -> Document | None:
    text = record.get(source.text_key)
    if text is None:
        return None
    id_ = record.get(source.id_key)
    meta = _meta(record.get("meta"))
    for key in source.meta_keys:
        if (value := record.get(key)) is not None:
            meta.setdefault(key, _as_json(value))
    said = record.get("source") or meta.get("source")
    return Document(
        text=text,
        id=f"{piece.file.name}:{row}" if id_ is None else str(id_),
        source=source.name or (said if isinstance(said, str) else piece.file.input.source),
        origin=Origin(str(piece.file.input.path), row, -1),
        meta=meta,
    )


def _meta(value: Any) -> dict[str, Any]:
    if isinstance(value, str):
        # A column of JSON text, as many tools write it.
        try:
            parsed = orjson.loads(value)
        except orjson.JSONDecodeError:
            parsed = value
        value = parsed if isinstance(parsed, dict) else {"meta": value}
    if isinstance(value, list):  # of pairs: a map
        value = dict(value)
    return {str(key): _as_json(item) for key, item in value.items()} if isinstance(value, Mapping) else {}


def _as_json(value: Any) -> Any:
    """A value of Parquet as one of JSON: dates in ISO format, the rest as text."""
    if isinstance(value, Mapping):
        return {str(key): _as_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_as_json(item) for item in value]
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat()
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, decimal.Decimal | datetime.timedelta):
        return str(value)
    return value


def _opened(path: Path) -> Any:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        return pq.ParquetFile(path)
    except (pa.ArrowException, OSError) as error:
        raise DataError(f"{path}: cannot be read as Parquet: {str(error).splitlines()[0]}") from None
