"""Looking single documents up in ``<prefix>.docs.parquet``."""

import os
from collections.abc import Iterator
from typing import Any

import numpy as np

from mindformers_megatron.errors import DataError
from mindformers_megatron.format.paths import docs_path, prefix_of
from mindformers_megatron.format.provenance import open_docs


class DocRows:
    """The rows of a pair's file, for looking up here and there.

    Only the parts of the file that are asked for are read, and the last of them is kept.

    Args:
        prefix: of the pair.

    Raises:
        DataError: there is no such file, it cannot be read or has other columns.
    """

    def __init__(self, prefix: str | os.PathLike[str]) -> None:
        self._prefix = prefix_of(prefix)
        with open_docs(self._prefix) as file:
            sizes = [file.metadata.row_group(group).num_rows for group in range(file.metadata.num_row_groups)]
        self._edges = np.concatenate(([0], np.cumsum(sizes, dtype=np.int64)))
        self._group = -1
        self._table: Any = None

    def __len__(self) -> int:
        return int(self._edges[-1])

    def rows(self, begin: int, end: int) -> Iterator[dict[str, Any]]:
        """The rows of documents ``[begin, end)``, as values by column.

        Raises:
            DataError: the file has no such rows, or cannot be read.
        """
        if not 0 <= begin <= end <= len(self):
            raise DataError(f"{docs_path(self._prefix)}: {len(self):,} rows, asked for rows {begin:,} to {end:,}")
        while begin < end:
            group = int(np.searchsorted(self._edges, begin, "right")) - 1
            if group != self._group:
                with open_docs(self._prefix) as file:
                    self._group, self._table = group, file.read_row_group(group)
            first, stop = int(self._edges[group]), min(int(self._edges[group + 1]), end)
            yield from self._table.slice(begin - first, stop - begin).to_pylist()
            begin = stop


def documents_with_id(prefix: str | os.PathLike[str], wanted: str) -> list[int]:
    """The documents of a pair that have an id, ascending; none where the pair has no such file.

    Raises:
        DataError: the file cannot be read or has other columns.
    """
    import pyarrow.compute as pc

    if not docs_path(prefix_of(prefix)).exists():
        return []
    found: list[int] = []
    with open_docs(prefix) as file:
        first = 0
        for batch in file.iter_batches(columns=["id"]) if file.metadata.num_row_groups else ():
            equal = pc.equal(batch.column(0), wanted).fill_null(False).to_numpy(zero_copy_only=False)
            found += (np.flatnonzero(equal) + first).tolist()
            first += batch.num_rows
    return found
