"""An index of documents kept earlier, on disk, against which new ones are compared.

A folder of segments that never change, one for each addition, and ``index.json`` that names those in force. A segment
holds the band keys of its documents in ascending order, their signatures, and their ids; all are mapped, so that
opening costs nothing and a search reads the pages it needs. About 750 bytes a document, by the default options.

The texts are not at hand any more, so similarity is estimated from the signatures, with a standard error of
sqrt(J (1 - J) / K): 0.04 at J = 0.7 and 128 permutations.
"""

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import orjson

from mindformers_megatron.corpus.dedup.lsh import BAND_ROW, Bands, band_keys, band_rows
from mindformers_megatron.corpus.dedup.minhash import is_empty, similarity
from mindformers_megatron.corpus.dedup.near import NearOptions
from mindformers_megatron.corpus.dedup.spill import Bound, Spill
from mindformers_megatron.errors import ConfigError, DataError
from mindformers_megatron.format.atomic import StagedFile, open_atomically

I64 = npt.NDArray[np.int64]
U32 = npt.NDArray[np.uint32]
F32 = npt.NDArray[np.float32]

_VERSION = 1
_INDEX = "index.json"
# Documents looked at for one key; those that share one are alike, and the first of them stand for the rest.
_MOST_PER_KEY = 64
# Candidates compared at once, of two signatures each.
_AT_ONCE = 1 << 16


@dataclass(frozen=True, slots=True)
class Matches:
    """Documents asked for that resemble documents of an index.

    Attributes:
        queries: int64[M], places among those asked for, ascending.
        rows: int64[M], documents of the index.
        similarity: float32[M], estimated Jaccard similarity; the highest of each query first.
    """

    queries: I64
    rows: I64
    similarity: F32


class NearIndex:
    """An index in a folder.

    Readers see the additions that were complete when they opened it. One process adds at a time.

    Args:
        folder: of the index; made, and the index with it, by the first addition.
        options: ``ngram``, ``permutations``, ``seed`` and the bands must be those of the index.

    Raises:
        ConfigError: the index was made with other options.
        DataError: it is damaged.
    """

    def __init__(self, folder: Path, options: NearOptions) -> None:
        self.folder = folder
        self.options = options
        self._bands = options.chosen_bands()
        self._open_all()

    def __len__(self) -> int:
        """Returns the number of documents."""
        return int(self._firsts[-1])

    def add(self, parts: Iterable[tuple[Sequence[str], U32]], *, bound: Bound | None = None) -> None:
        """Adds documents; whole or not at all.

        Args:
            parts: ids, and the signatures of these documents (``minhash.sign`` with the index's options); one part in
                memory at a time.
            bound: memory for sorting band keys.

        Raises:
            ConfigError: another process is adding.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        staged = StagedFile(self.folder / _INDEX, exclusive=True)
        try:
            # What others have added since this was opened goes on to count.
            segments = self._read()
            name = f"{len(segments) + 1:06d}"
            rows = _write_segment(self.folder, name, parts, self._bands, bound or Bound())
            content = {
                "version": _VERSION,
                "options": self.options.index_options(),
                "segments": {**segments, name: rows},
            }
            staged.file.write(orjson.dumps(content, option=orjson.OPT_INDENT_2))
            staged.commit()
        finally:
            staged.discard()
        self._open_all()

    def find(self, signatures: U32) -> Matches:
        """Finds documents of the index that are at least as similar as the threshold.

        Args:
            signatures: uint32[D, K] of the documents asked for.
        """
        nothing = np.zeros(0, dtype=np.int64)
        parts = [Matches(nothing, nothing, np.zeros(0, dtype=np.float32))]
        for first, segment in zip(self._firsts, self._segments, strict=False):
            parts += segment.find(signatures, self._bands, self.options.threshold, int(first))
        queries, rows, alike = (np.concatenate([getattr(part, name) for part in parts]) for name in Matches.__slots__)
        order = np.lexsort((rows, -alike, queries))
        return Matches(queries[order], rows[order], alike[order])

    def ids(self, rows: I64) -> list[str]:
        """Returns the ids of documents of the index."""
        ids = [""] * rows.size
        owners = np.searchsorted(self._firsts, rows, side="right") - 1
        for owner in np.unique(owners):
            places = np.flatnonzero(owners == owner)
            chosen = self._segments[owner].ids.take(rows[places] - self._firsts[owner])
            for place, id_ in zip(places.tolist(), chosen.to_pylist(), strict=True):
                ids[place] = id_
        return ids

    def _open_all(self) -> None:
        self._segments = [self._open(name, rows) for name, rows in self._read().items()]
        self._firsts = np.cumsum([0, *(segment.signatures.shape[0] for segment in self._segments)])

    def _read(self) -> dict[str, int]:
        """The segments in force, and how many documents each has."""
        path = self.folder / _INDEX
        try:
            content = orjson.loads(path.read_bytes())
            version, options, segments = content["version"], content["options"], content["segments"]
        except FileNotFoundError:
            return {}
        except (OSError, orjson.JSONDecodeError, KeyError, TypeError) as error:
            raise DataError(f"{path}: no index of near duplicates: {error}") from None
        if version != _VERSION:
            raise DataError(f"{path}: version {version}, expected {_VERSION}; make the index again")
        for name, value in self.options.index_options().items():
            if options.get(name) != value:
                raise ConfigError(
                    f"{path}: the index was made with {name} {options.get(name)}, asked for is {value}; an index keeps "
                    "its options"
                )
        return dict(segments)

    def _open(self, name: str, rows: int) -> "_Segment":
        path = self.folder / name
        count = rows * self._bands.count
        permutations = self.options.permutations
        keys = _map(path.with_suffix(".keys"), "<u8")
        owners = _map(path.with_suffix(".rows"), "<u4")
        signatures = _map(path.with_suffix(".signatures"), "<u4")
        ids = _read_ids(path.with_suffix(".ids"))
        # Documents without words have a signature but no keys.
        if keys.size != owners.size or keys.size > count or signatures.size != rows * permutations or len(ids) != rows:
            raise DataError(
                f"{path}: {keys.size} keys, {owners.size} rows, {signatures.size} places and {len(ids)} ids do not fit "
                f"{rows} documents; make the index again"
            )
        return _Segment(keys, owners, signatures.reshape(rows, permutations), ids)


@dataclass(frozen=True, slots=True)
class _Segment:
    keys: npt.NDArray[np.uint64]
    rows: U32
    signatures: U32
    ids: Any

    def find(self, signatures: U32, bands: Bands, threshold: float, first_row: int) -> Iterator[Matches]:
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
            yield Matches(queries[some][found], rows[some][found] + first_row, alike[found])


def _write_segment(
    folder: Path, name: str, parts: Iterable[tuple[Sequence[str], U32]], bands: Bands, bound: Bound
) -> int:
    """Writes the files of a segment and returns how many documents it has."""
    path = folder / name
    rows = 0
    with _IdsWriter(path.with_suffix(".ids")) as writer, open_atomically(path.with_suffix(".signatures")) as file:
        for ids, signatures in parts:
            if len(ids) != signatures.shape[0]:
                raise ValueError(f"{len(ids)} ids for {signatures.shape[0]} signatures")
            writer.add(ids)
            file.write(signatures.astype("<u4", copy=False).tobytes())
            rows += len(ids)
    if rows >= 1 << 32:
        raise ConfigError(f"{folder}: {rows:,} documents in one addition; add fewer than {1 << 32:,} at a time")
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


class _IdsWriter:
    """Writes ids to an Arrow file, which is mapped and read at any place."""

    def __init__(self, path: Path) -> None:
        import pyarrow as pa

        self._arrow: Any = pa
        self._staged = StagedFile(path)
        self._schema = pa.schema([pa.field("id", pa.large_string(), nullable=False)])
        self._writer = pa.ipc.new_file(self._staged.file, self._schema)

    def add(self, ids: Sequence[str]) -> None:
        self._writer.write_batch(
            self._arrow.record_batch([self._arrow.array(ids, self._arrow.large_string())], schema=self._schema)
        )

    def __enter__(self) -> "_IdsWriter":
        return self

    def __exit__(self, kind: object, error: object, traceback: object) -> None:
        try:
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
