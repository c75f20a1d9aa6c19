"""The shingle sets of those documents that must be compared, looked up by document number.

In memory, or in a folder of three plain arrays that are mapped: it holds only what the candidates need, and is read
where two documents are compared.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from mindformers_megatron.corpus.dedup.shingles import Shingles, join_shingles
from mindformers_megatron.errors import DataError
from mindformers_megatron.format.atomic import open_atomically, write_atomically

I64 = npt.NDArray[np.int64]
U32 = npt.NDArray[np.uint32]


@dataclass(frozen=True, slots=True)
class ShingleStore:
    """Shingle sets by document number.

    Attributes:
        documents: int64[M], ascending.
        starts: int64[M], where the set of each begins in ``values``.
        sizes: int64[M], of how many shingles it is.
        values: uint32, the sets, each in ascending order; may be a mapped file.
    """

    documents: I64
    starts: I64
    sizes: I64
    values: U32

    def rows(self, documents: I64) -> I64:
        """Returns the place of each document in ``documents``.

        Raises:
            DataError: the store does not hold one of them.
        """
        rows = np.minimum(np.searchsorted(self.documents, documents), max(self.documents.size - 1, 0))
        if self.documents.size == 0 or not np.array_equal(self.documents[rows], documents):
            missing = np.setdiff1d(documents, self.documents)
            raise DataError(f"shingles of document {missing[0]} are missing; shingle all documents of the pairs")
        return rows

    def take(self, documents: I64) -> Shingles:
        """Returns the sets of documents, in the order asked."""
        rows = self.rows(documents) if documents.size else documents
        sizes = self.sizes[rows]
        offsets = np.concatenate(([0], np.cumsum(sizes)))
        places = np.arange(offsets[-1]) + np.repeat(self.starts[rows] - offsets[:-1], sizes)
        return Shingles(offsets, self.values[places])


def gather_store(parts: Iterable[tuple[I64, Shingles]]) -> ShingleStore:
    """Makes a store in memory.

    Args:
        parts: document numbers, and their shingle sets; every document once, in any order.
    """
    numbers, sets = [np.zeros(0, dtype=np.int64)], []
    for documents, shingles in parts:
        numbers.append(documents)
        sets.append(shingles)
    joined = join_shingles(sets)
    return _by_document(np.concatenate(numbers), joined.sizes, joined.values)


def write_store(folder: Path, parts: Iterable[tuple[I64, Shingles]]) -> ShingleStore:
    """Makes a store in an existing folder and opens it; 16 bytes of memory per document.

    Args:
        folder: must exist; what stands there is replaced.
        parts: document numbers, and their shingle sets; every document once, in any order.
    """
    numbers, sizes = [np.zeros(0, dtype=np.int64)], [np.zeros(0, dtype=np.int64)]
    with open_atomically(folder / "shingles.u32") as file:
        for documents, shingles in parts:
            numbers.append(documents)
            sizes.append(shingles.sizes)
            file.write(shingles.values.astype("<u4", copy=False).tobytes())
    for name, arrays in (("documents.i64", numbers), ("sizes.i64", sizes)):
        write_atomically(folder / name, np.concatenate(arrays).astype("<i8", copy=False).tobytes())
    return open_store(folder)


def open_store(folder: Path) -> ShingleStore:
    """Opens what ``write_store`` has written.

    Raises:
        DataError: a file is missing, or they do not fit together.
    """
    try:
        documents = np.fromfile(folder / "documents.i64", "<i8")
        sizes = np.fromfile(folder / "sizes.i64", "<i8")
        bytes_found = (folder / "shingles.u32").stat().st_size
    except OSError as error:
        raise DataError(f"{folder}: not a shingle store: {error.strerror}: {error.filename}") from None
    if documents.size != sizes.size or sizes.min(initial=0) < 0 or bytes_found != 4 * sizes.sum():
        raise DataError(
            f"{folder}: {documents.size} documents, {sizes.size} sizes and {bytes_found} bytes of shingles do not fit "
            "together; write it again"
        )
    # An empty file cannot be mapped.
    values = np.memmap(folder / "shingles.u32", "<u4", mode="r") if bytes_found else np.zeros(0, dtype=np.uint32)
    return _by_document(documents, sizes, values)


def _by_document(documents: I64, sizes: I64, values: U32) -> ShingleStore:
    starts = np.cumsum(sizes) - sizes
    order = np.argsort(documents, kind="stable")
    return ShingleStore(documents[order], starts[order], sizes[order], values)
