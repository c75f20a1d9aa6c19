"""An index of documents kept earlier, on disk, against which new ones are compared.

A folder of segments that never change, one for each addition, and ``index.json`` that names those in force. A segment
holds the band keys of its documents in ascending order, their signatures, and their ids; all are mapped, so that
opening costs nothing and a search reads the pages it needs. About 750 bytes a document, by the default options.

The texts are not at hand any more, so similarity is estimated from the signatures, with a standard error of
sqrt(J (1 - J) / K): 0.04 at J = 0.7 and 128 permutations.
"""

import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import orjson

from mindformers_megatron.corpus.dedup.index_segment import (
    open_segment,
    remove_segment,
    same_segments,
    write_segment,
)
from mindformers_megatron.corpus.dedup.near import NearOptions
from mindformers_megatron.corpus.dedup.spill import Bound
from mindformers_megatron.errors import ConfigError, DataError
from mindformers_megatron.format.atomic import StagedFile, remove_left_over

I64 = npt.NDArray[np.int64]
U32 = npt.NDArray[np.uint32]
F32 = npt.NDArray[np.float32]

_VERSION = 2
_INDEX = "index.json"


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


@dataclass(frozen=True, slots=True)
class Addition:
    """Whose documents a segment holds, so that whoever made them knows them again.

    Attributes:
        output: where they were published.
        content: a hash of the documents that they were chosen from.
    """

    output: str
    content: str


@dataclass(frozen=True, slots=True)
class _Entry:
    documents: int
    addition: Addition | None


class NearIndex:
    """An index in a folder.

    Readers see the additions that were complete when they opened it. One process adds at a time.

    Args:
        folder: of the index; made, and the index with it, by the first addition.
        options: ``threshold``, ``ngram``, ``permutations``, ``seed`` and the bands must be those of the index.

    Raises:
        ConfigError: the index was made with other options.
        DataError: it is damaged.
    """

    def __init__(self, folder: Path, options: NearOptions) -> None:
        self.folder = folder
        self.options = options
        self._bands = options.chosen_bands()
        self._claimed: StagedFile | None = None
        self._open_all()

    def __len__(self) -> int:
        """Returns the number of documents."""
        return int(self._firsts[-1])

    @property
    def additions(self) -> list[Addition | None]:
        """Whose documents are in it, in the order in which they were added; None: nobody said so."""
        return [entry.addition for entry in self._entries.values()]

    @contextlib.contextmanager
    def claim(self) -> Iterator[None]:
        """Keeps others from adding, so that what is found in the meantime holds when it is added to.

        Raises:
            ConfigError: another process is adding, or the folder cannot be written to.
        """
        if self._claimed is not None:
            yield
            return
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigError(f"{self.folder}: no folder for an index can be made: {error.strerror}") from None
        self._claimed = StagedFile(self.folder / _INDEX, exclusive=True)
        try:
            remove_left_over(self.folder)
            # What others have added since this was opened goes on to count.
            self._open_all()
            yield
        finally:
            if self._claimed is not None:
                self._claimed.discard()
                self._claimed = None
            # It is not empty, if there was an index or is one now.
            with contextlib.suppress(OSError):
                self.folder.rmdir()

    def add(
        self,
        parts: Iterable[tuple[Sequence[str], U32]],
        *,
        addition: Addition | None = None,
        bound: Bound | None = None,
    ) -> None:
        """Adds documents; whole or not at all.

        Args:
            parts: ids, and the signatures of these documents (``minhash.sign`` with the index's options); one part in
                memory at a time.
            addition: whose they are. Documents that the index already has of it are replaced, in their place.
            bound: memory for sorting band keys.

        Raises:
            ConfigError: another process is adding.
        """
        with self.claim():
            assert self._claimed is not None
            # A number that no segment has had: who reads the index may still have the files of an old one to open.
            name = f"{max(map(int, self._entries), default=0) + 1:06d}"
            entry = _Entry(write_segment(self.folder / name, parts, self._bands, bound or Bound()), addition)
            former = next((key for key, held in self._entries.items() if addition and held.addition == addition), None)
            if former is not None and same_segments(self.folder / former, self.folder / name):
                remove_segment(self.folder / name)
                return
            entries = {name if key == former else key: held for key, held in self._entries.items()} | {name: entry}
            content = {
                "version": _VERSION,
                "options": self.options.index_options(),
                "segments": {key: asdict(held) for key, held in entries.items()},
            }
            self._claimed.file.write(orjson.dumps(content, option=orjson.OPT_INDENT_2))
            self._claimed.commit()
            self._claimed = None
            if former is not None:
                remove_segment(self.folder / former)
        self._open_all()

    def find(self, signatures: U32, *, before: Addition | None = None) -> Matches:
        """Finds documents of the index that are at least as similar as the threshold.

        Args:
            signatures: uint32[D, K] of the documents asked for.
            before: only documents that were in the index before those of this addition; all, if it has none of it.
        """
        nothing = np.zeros(0, dtype=np.int64)
        found = [(nothing, nothing, np.zeros(0, dtype=np.float32))]
        for first, segment, addition in zip(self._firsts, self._segments, self.additions, strict=False):
            if before is not None and addition == before:
                break
            parts = segment.find(signatures, self._bands, self.options.threshold)
            found += [(queries, rows + int(first), alike) for queries, rows, alike in parts]
        queries, rows, alike = map(np.concatenate, zip(*found, strict=True))
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
        self._entries = self._read()
        permutations = self.options.permutations
        self._segments = [
            open_segment(self.folder / name, entry.documents, self._bands, permutations)
            for name, entry in self._entries.items()
        ]
        self._firsts = np.cumsum([0, *(segment.signatures.shape[0] for segment in self._segments)])

    def _read(self) -> dict[str, _Entry]:
        """The segments in force."""
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
        try:
            return {str(int(name)).zfill(6): _entry(values) for name, values in segments.items()}
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise DataError(f"{path}: no index of near duplicates: {error}") from None


def _entry(values: Mapping[str, Any]) -> _Entry:
    addition = values["addition"]
    return _Entry(int(values["documents"]), None if addition is None else Addition(**addition))
