"""Parts of the arrays of an index, read rather than mapped: mapped pages would count as memory in use."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mindformers_megatron.errors import DataError
from mindformers_megatron.format.index import Index
from mindformers_megatron.format.layout import IndexLayout
from mindformers_megatron.format.paths import idx_path


@dataclass(frozen=True, slots=True)
class IndexSlices:
    """Reads ``[begin, end)`` of an array of an index as an aligned copy.

    Attributes:
        index: the index.
    """

    index: Index

    def lengths(self, begin: int, end: int) -> NDArray[np.int32]:
        """int32[end - begin], tokens."""
        return self._read("<i4", self._layout.lengths, begin, end)

    def pointers(self, begin: int, end: int) -> NDArray[np.int64]:
        """int64[end - begin], bytes."""
        return self._read("<i8", self._layout.pointers, begin, end)

    def documents(self, begin: int, end: int) -> NDArray[np.int64]:
        """int64[end - begin], sequences."""
        return self._read("<i8", self._layout.documents, begin, end)

    def modes(self, begin: int, end: int) -> NDArray[np.int8]:
        """int8[end - begin]."""
        return self._read("i1", self._layout.modes, begin, end)

    @property
    def _layout(self) -> IndexLayout:
        index = self.index
        return IndexLayout(index.num_sequences, len(index.document_indices), index.sequence_modes is not None)

    def _read(self, dtype: str, array: int, begin: int, end: int) -> NDArray[Any]:
        path = idx_path(self.index.prefix)
        try:
            values = np.fromfile(path, dtype, end - begin, offset=array + begin * np.dtype(dtype).itemsize)
        except OSError as error:
            raise DataError(f"{path}: cannot be read: {error.strerror}") from None
        if values.size != end - begin:
            raise DataError(f"{path}: was truncated while being read")
        return values
