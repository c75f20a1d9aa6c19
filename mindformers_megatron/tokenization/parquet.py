"""Records that are rows of Parquet files."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from mindformers_megatron.errors import DataError

# Beside the texts, what a record says about itself.
_ABOUT = ("id", "source", "meta")


def row_groups(path: Path) -> list[int]:
    """The number of rows of each row group of a file.

    Raises:
        DataError: it cannot be read as Parquet.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path) as file:
            return [file.metadata.row_group(group).num_rows for group in range(file.num_row_groups)]
    except (pa.ArrowException, OSError) as error:
        raise DataError(f"{path}: cannot be read as Parquet: {str(error).splitlines()[0]}") from None


def read_rows(path: Path, row_group: int, keys: Sequence[str], rows: int) -> Iterator[list[dict[str, Any]]]:
    """Yields the rows of a row group, so many at a time, with the columns that matter.

    Raises:
        DataError: the file is damaged, or lacks a column.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path) as file:
            names = file.schema_arrow.names
            for key in keys:
                if key not in names:
                    raise DataError(f"{path}: has no column {key!r} (its columns: {', '.join(names)})")
            columns = [name for name in names if name in {*keys, *_ABOUT}]
            # Threads of its own would not be shared between the parts that are under way.
            batches = file.iter_batches(rows, row_groups=[row_group], columns=columns, use_threads=False)
            for batch in batches:
                yield batch.to_pylist()
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path}, row group {row_group}: cannot be read: {str(error).splitlines()[0]}") from None
