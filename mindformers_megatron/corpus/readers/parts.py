"""What is read at a time: a file, a range of one, or many small ones."""

from dataclasses import dataclass

from mindformers_megatron.corpus.readers.encodings import Encoding
from mindformers_megatron.corpus.readers.sources import Source, SourceFile


@dataclass(frozen=True, slots=True)
class Slice:
    """A file, or the records of it that begin in a range.

    Attributes:
        file: the file.
        start: first byte, or first row group in Parquet.
        stop: behind the last; None: all of the file, as one stream.
        first_line: number of the first line that begins in the range; or of the first row.
        encoding: how it is read; None: to be found out from all of it.
    """

    file: SourceFile
    start: int = 0
    stop: int | None = None
    first_line: int = 1
    encoding: Encoding | None = None


@dataclass(frozen=True, slots=True)
class ReadPart:
    """What is read at a time, in one go, by one worker.

    Attributes:
        number: place among the parts of the source, from 0.
        source: what of a record is kept.
        slices: what to read, in order.
        bytes: about how much that is, on disk.
    """

    number: int
    source: Source
    slices: tuple[Slice, ...]
    bytes: int

    def __str__(self) -> str:
        first, last = self.slices[0], self.slices[-1]
        if len(self.slices) > 1:
            return f"{len(self.slices)} files from {first.file.input.path} to {last.file.input.path}"
        if first.stop is None:
            return str(first.file.input.path)
        unit = "row groups" if first.file.format == "parquet" else "bytes"
        return f"{first.file.input.path}, {unit} {first.start:,} to {first.stop:,}"
