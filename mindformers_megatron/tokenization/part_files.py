"""What lies in the working folder of a run.

The tokens of all parts, one behind the other, are in one file for each key, which becomes the ``.bin`` of the pair in
the end; so they are written once. Beside it, each part has files of its own, for all that is small.
"""

import contextlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

import numpy as np
import orjson
from numpy.typing import NDArray

from mindformers_megatron.errors import ConfigError
from mindformers_megatron.format.ids import as_tokens
from mindformers_megatron.format.provenance import docs_schema
from mindformers_megatron.tokenization.documents import Documents

if TYPE_CHECKING:
    import pyarrow as pa


_NAME = re.compile(r"\d+\.tokens\.bin|\d{8}\.(\d+\.index|docs\.arrow|rejected\.jsonl|done(\.tmp)?)")


@dataclass(frozen=True, slots=True)
class Reject:
    """A line that is no record.

    Attributes:
        line: number of the line, from 1; within a part: counted from its first line.
        byte_offset: where it begins in the file.
        reason: what is wrong with it.
        raw: how it begins, as far as it can be read.
    """

    line: int
    byte_offset: int
    reason: str
    raw: str


@dataclass(frozen=True, slots=True)
class PartFiles:
    """The files of one part, beside its tokens.

    Attributes:
        folder: the working folder of the run.
        number: the part.
    """

    folder: Path
    number: int

    def index(self, key: int) -> Path:
        """Of the texts under the key of that place: number of sequences, their lengths, sequences of each document."""
        return self._path(f"{key}.index")

    @property
    def docs(self) -> Path:
        """Where each document comes from, as an Arrow file."""
        return self._path("docs.arrow")

    @property
    def rejects(self) -> Path:
        """Lines that are no records, as JSONL."""
        return self._path("rejected.jsonl")

    @property
    def marker(self) -> Path:
        """Says that the other files are complete."""
        return self._path("done")

    def all(self, keys: int) -> list[Path]:
        """The files of a part but its marker."""
        return [*(self.index(key) for key in range(keys)), self.docs, self.rejects]

    def _path(self, name: str) -> Path:
        return self.folder / f"{self.number:08d}.{name}"

    def read_index(self, key: int) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """(tokens of each sequence, sequences of each document)."""
        values = np.fromfile(self.index(key), np.int32)
        count = int(values[0])
        return values[1 : count + 1], values[count + 1 :]

    def read_docs(self) -> "pa.Table":
        """One row per document, as in ``<prefix>.docs.parquet``, but with lines counted from the first of the part."""
        import pyarrow as pa

        with pa.memory_map(str(self.docs)) as file:
            return pa.ipc.open_file(file).read_all()

    def read_rejects(self) -> Iterator[tuple[int, Reject]]:
        """(number of the piece, line that is no record), in order."""
        with self.rejects.open("rb") as file:
            for line in file:
                piece, fields = orjson.loads(line)
                yield piece, Reject(**fields)


def tokens_path(folder: Path, key: int) -> Path:
    """Tokens of all parts under the key of that place, in the type of the pair."""
    return folder / f"{key}.tokens.bin"


def prepare_folder(folder: Path) -> None:
    """Makes the working folder of a run; what an earlier run left in it stays.

    Raises:
        ConfigError: there is something in it that no run leaves there.
        OSError: it cannot be made.
    """
    folder.mkdir(exist_ok=True)
    for path in folder.iterdir():
        if not _NAME.fullmatch(path.name) or not path.is_file():
            raise ConfigError(f"{folder}: would be the working folder, but has {path.name} in it; move one of them")


def clear_folder(folder: Path) -> None:
    """Removes the working folder of a run, unless there is something else in it."""
    # What stays behind is harmless, and the run that ends here may have more important errors to report.
    with contextlib.suppress(OSError):
        for path in folder.iterdir():
            if _NAME.fullmatch(path.name):
                path.unlink()
        folder.rmdir()


def finished_parts(folder: Path) -> int:
    """How many finished parts lie in a working folder."""
    return sum(1 for _ in folder.glob("*.done"))


class PartWriter:
    """Takes in a part, and writes its files when the block ends.

    Args:
        files: where to.
        keys: how many keys there are.
        dtype: type of the tokens.

    Attributes:
        tokens: under each key, some arrays in the type of the pair; nobody changes them any more.
    """

    def __init__(self, files: PartFiles, keys: int, dtype: np.dtype[Any]) -> None:
        self._files = files
        self._dtype = dtype
        self.tokens: list[list[NDArray[Any]]] = [[] for _ in range(keys)]
        self._lengths: list[list[NDArray[np.int32]]] = [[] for _ in range(keys)]
        self._sequences: list[list[NDArray[np.int32]]] = [[] for _ in range(keys)]
        self._docs: list[pa.RecordBatch] = []
        self._rejects: list[tuple[int, Reject]] = []

    def add(self, key: int, documents: Documents) -> None:
        """Appends documents to those of a key."""
        part = self._files.number
        tokens = as_tokens(documents.ids, self._dtype, lambda position: f"part {part}, token {position} of a batch")
        self.tokens[key].append(tokens)
        self._lengths[key].append(documents.lengths.astype(np.int32))
        self._sequences[key].append(documents.sequences.astype(np.int32))

    def add_docs(self, batch: "pa.RecordBatch") -> None:
        """Notes where documents come from: rows of ``docs_schema()``."""
        self._docs.append(batch)

    def add_reject(self, piece: int, reject: Reject) -> None:
        """Notes a line of a piece that is no record."""
        self._rejects.append((piece, reject))

    def __enter__(self) -> "PartWriter":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if kind is None:
            self._finish()

    def _finish(self) -> None:
        for key, (lengths, sequences) in enumerate(zip(self._lengths, self._sequences, strict=True)):
            count = np.array([sum(map(len, lengths))], np.int32)
            np.concatenate([count, *lengths, *sequences]).tofile(self._files.index(key))
        self._write_docs()
        with self._files.rejects.open("wb") as file:
            file.writelines(orjson.dumps(entry, option=orjson.OPT_APPEND_NEWLINE) for entry in self._rejects)

    def _write_docs(self) -> None:
        import pyarrow as pa

        table = pa.Table.from_batches(self._docs, docs_schema()).combine_chunks()
        with pa.OSFile(str(self._files.docs), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
            writer.write_table(table)
