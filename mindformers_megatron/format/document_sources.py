"""Which source each document of a pair comes from, looked up in ``<prefix>.docs.parquet`` where it is asked for."""

import os
from collections import OrderedDict

import numpy as np
from numpy.typing import NDArray

from mindformers_megatron.errors import DataError
from mindformers_megatron.format.paths import docs_path, prefix_of
from mindformers_megatron.format.provenance import open_docs

# Row groups have 2**17 rows at most, a code of 4 bytes each: 32 MB in all.
_GROUPS_KEPT = 64


class DocumentSources:
    """The sources of a pair's documents. Only the parts of the file that are asked for are read, and some are kept.

    Attributes:
        prefix: of the pair.
        names: the sources met so far; a code is a place in this list.
    """

    def __init__(self, prefix: str | os.PathLike[str]) -> None:
        """Reads the end of the file.

        Raises:
            DataError: there is no such file, it cannot be read or has other columns.
        """
        self.prefix = prefix_of(prefix)
        self.names: list[str] = []
        self._codes: dict[str, int] = {}
        self._groups: OrderedDict[int, NDArray[np.int32]] = OrderedDict()
        with open_docs(prefix) as file:
            rows = [file.metadata.row_group(group).num_rows for group in range(file.metadata.num_row_groups)]
        self._edges = np.concatenate(([0], np.cumsum(rows, dtype=np.int64)))

    def __len__(self) -> int:
        return int(self._edges[-1])

    def of(self, documents: NDArray[np.int64]) -> NDArray[np.int32]:
        """Looks documents up: int64[B] → codes int32[B].

        Raises:
            DataError: the file has no row for one of them.
        """
        if documents.size and not 0 <= documents.min() <= documents.max() < len(self):
            raise DataError(
                f"{docs_path(self.prefix)}: has {len(self)} rows, the pair has a document {documents.max()}; "
                "it belongs to another pair"
            )
        codes = np.empty(documents.size, dtype=np.int32)
        owner = np.searchsorted(self._edges, documents, side="right") - 1
        for group in np.unique(owner).tolist():
            chosen = owner == group
            codes[chosen] = self._group(group)[documents[chosen] - self._edges[group]]
        return codes

    def _group(self, group: int) -> NDArray[np.int32]:
        if group in self._groups:
            self._groups.move_to_end(group)
            return self._groups[group]
        with open_docs(self.prefix) as file:
            column = file.read_row_group(group, columns=["source"]).column(0).combine_chunks().dictionary_encode()
        known = [self._code(name) for name in column.dictionary.to_pylist()]
        codes = np.array(known, dtype=np.int32)[column.indices.to_numpy(zero_copy_only=False)]
        self._groups[group] = codes
        if len(self._groups) > _GROUPS_KEPT:
            self._groups.popitem(last=False)
        return codes

    def _code(self, name: str) -> int:
        if name not in self._codes:
            self._codes[name] = len(self.names)
            self.names.append(name)
        return self._codes[name]
