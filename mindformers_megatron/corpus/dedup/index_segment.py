"""A segment of an index of near duplicates: the files of one addition, which never change."""

import filecmp
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from mindformers_megatron.corpus.dedup.lsh import BAND_ROW, Bands, band_keys, band_rows
from mindformers_megatron.corpus.dedup.minhash import is_empty, similarity
from mindformers_megatron.corpus.dedup.spill import Bound, Spill
from mindformers_megatron.errors import ConfigError, DataError
from mindformers_megatron.format.atomic import StagedFile, open_atomically

I64 = npt.NDArray[np.int64]
U32 = npt.NDArray[np.uint32]
F32 = npt.NDArray[np.float32]

# Documents looked at for one key; those that share one are alike, and the first of them stand for the rest.
_MOST_PER_KEY = 64
# Candidates compared at once, of two signatures each.
_AT_ONCE = 1 << 16
_SUFFIXES = (".keys", ".rows", ".signatures", ".ids")


@dataclass(frozen=True, slots=True)
class Segment:
    """An open segment; everything is mapped.

    Attributes:
        keys: uint64[B], band keys, ascending.
        rows: uint32[B], the document of each.
        signatures: uint32[D, K].
        ids: of the documents, an Arrow column.
    """

    keys: npt.NDArray[np.uint64]
    rows: U32
    signatures: U32
    ids: Any

    def find(self, signatures: U32, bands: Bands, threshold: float) -> Iterator[tuple[I64, I64, F32]]:
        """Yields places among those asked for, documents of the segment, and similarities."""
        asked = np.flatnonzero(~is_empty(signatures))
        wanted = band_keys(signatures[asked], bands).ravel()
        # In the order of the keys, neighbouring look-ups read the same pages.
        order = np.argsort(wanted)
        wanted = wanted[order]
        first = np.searchsorted(self.keys, wanted)
        sizes = np.minimum(np.searchsorted(self.keys, wanted, side="right") - first, _MOST_PER_KEY)
        places = np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes) + np.repeat(first, sizes)
        queries = np.repeat(asked[order // bands.count], sizes)
        # Row and query in one number, so that each pair is compared once.
        pairs = np.unique(queries.astype(np.uint64) << np.uint64(32) | self.rows[places])
        queries, rows = (pairs >> np.uint64(32)).astype(np.int64), (pairs & np.uint64(0xFFFFFFFF)).astype(np.int64)
        for begin in range(0, pairs.size, _AT_ONCE):
            some = slice(begin, begin + _AT_ONCE)
            alike = similarity(signatures[queries[some]], self.signatures[rows[some]])
            found = alike >= np.float32(threshold)
            yield queries[some][found], rows[some][found], alike[found]


def open_segment(path: Path, documents: int, bands: Bands, permutations: int) -> Segment:
    """Opens a segment.

    Args:
        path: of its files, without suffix.
        documents: how many it has.
        bands: of the index.
        permutations: of the index.

    Raises:
        DataError: it is damaged.
    """
    keys = _map(path.with_suffix(".keys"), "<u8")
    owners = _map(path.with_suffix(".rows"), "<u4")
    signatures = _map(path.with_suffix(".signatures"), "<u4")
    ids = _read_ids(path.with_suffix(".ids"))
    # Documents without words have a signature but no keys.
    fits = keys.size == owners.size and keys.size <= documents * bands.count
    if not fits or signatures.size != documents * permutations or len(ids) != documents:
        raise DataError(
            f"{path}: {keys.size} keys, {owners.size} rows, {signatures.size} places and {len(ids)} ids do not fit "
            f"{documents} documents; make the index again"
        )
    return Segment(keys, owners, signatures.reshape(documents, permutations), ids)


def write_segment(path: Path, parts: Iterable[tuple[Sequence[str], U32]], bands: Bands, bound: Bound) -> int:
    """Writes the files of a segment and returns how many documents it has.

    Args:
        path: of its files, without suffix.
        parts: ids, and the signatures of these documents; one part in memory at a time.
        bands: of the index.
        bound: memory for sorting band keys.
    """
    rows = 0
    with _IdsWriter(path.with_suffix(".ids")) as writer, open_atomically(path.with_suffix(".signatures")) as file:
        for ids, signatures in parts:
            if len(ids) != signatures.shape[0]:
                raise ValueError(f"{len(ids)} ids for {signatures.shape[0]} signatures")
            writer.add(ids)
            file.write(signatures.astype("<u4", copy=False).tobytes())
            rows += len(ids)
    if rows >= 1 << 32:
        raise ConfigError(f"{path.parent}: {rows:,} documents in one addition; add fewer than {1 << 32:,} at a time")
    written = _map(path.with_suffix(".signatures"), "<u4").reshape(rows, -1 if rows else 0)
    with (
        Spill(BAND_ROW, "key", limit=1 << 64, expected_rows=rows * bands.count, bound=bound) as keyed,
        open_atomically(path.with_suffix(".keys")) as keys,
        open_atomically(path.with_suffix(".rows")) as owners,
    ):
        for first in range(0, rows, _AT_ONCE):
            keyed.add(band_rows(np.asarray(written[first : first + _AT_ONCE]), bands, first))
        for chunk in keyed:
            chunk = chunk[np.lexsort((chunk["document"], chunk["key"]))]
            keys.write(chunk["key"].astype("<u8").tobytes())
            owners.write(chunk["document"].astype("<u4").tobytes())
    return rows


def remove_segment(path: Path) -> None:
    """Removes the files of a segment; who has them open can go on reading."""
    for suffix in _SUFFIXES:
        path.with_suffix(suffix).unlink(missing_ok=True)


def same_segments(left: Path, right: Path) -> bool:
    """Whether two segments have the same documents."""
    pairs = ((left.with_suffix(suffix), right.with_suffix(suffix)) for suffix in (".signatures", ".ids"))
    return all(one.exists() and filecmp.cmp(one, other, shallow=False) for one, other in pairs)


class _IdsWriter:
    """Writes ids to an Arrow file, which is mapped and read at any place."""

    def __init__(self, path: Path) -> None:
        import pyarrow as pa

        self._arrow: Any = pa
        self._staged = StagedFile(path)
        self._schema = pa.schema([pa.field("id", pa.large_string(), nullable=False)])
        self._writer = pa.ipc.new_file(self._staged.file, self._schema)
        self._waiting: list[str] = []

    def add(self, ids: Sequence[str]) -> None:
        # In batches of one size, so that the bytes do not depend on the parts in which documents come.
        self._waiting += ids
        whole = len(self._waiting) // _AT_ONCE * _AT_ONCE
        for first in range(0, whole, _AT_ONCE):
            self._write(self._waiting[first : first + _AT_ONCE])
        del self._waiting[:whole]

    def _write(self, ids: Sequence[str]) -> None:
        self._writer.write_batch(
            self._arrow.record_batch([self._arrow.array(ids, self._arrow.large_string())], schema=self._schema)
        )

    def __enter__(self) -> "_IdsWriter":
        return self

    def __exit__(self, kind: object, error: object, traceback: object) -> None:
        try:
            if kind is None and self._waiting:
                self._write(self._waiting)
            self._writer.close()
            if kind is None:
                self._staged.commit()
        finally:
            self._staged.discard()


def _read_ids(path: Path) -> Any:
    import pyarrow as pa

    try:
        return pa.ipc.open_file(pa.memory_map(os.fspath(path))).read_all()["id"]
    except (pa.ArrowException, OSError, KeyError) as error:
        raise DataError(f"{path}: no ids of an index: {str(error).splitlines()[0]}") from None


def _map(path: Path, dtype: str) -> npt.NDArray[Any]:
    try:
        # An empty file cannot be mapped.
        return np.memmap(path, dtype, mode="r") if path.stat().st_size else np.zeros(0, dtype=dtype)
    except (OSError, ValueError) as error:
        raise DataError(f"{path}: cannot be read: {error}") from None
