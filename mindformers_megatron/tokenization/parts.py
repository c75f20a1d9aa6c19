"""Cutting input files into byte ranges that can be read independently."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from mindformers_megatron.errors import DataError
from mindformers_megatron.tokenization.inputs import InputFile

_UTF8_MARK = b"\xef\xbb\xbf"
_BUFFER_BYTES = 1 << 20
_SMALLEST, _LARGEST = 1 << 20, 1 << 24
_PARTS_WANTED = 64


@dataclass(frozen=True, slots=True)
class Part:
    """The lines of a file that begin in ``[start, stop)``, bytes; the last of them may end behind it.

    A line belongs to the part its first byte is in, so that cutting is arithmetic: nobody has to look for line ends
    first, and each line is in exactly one part, wherever the cuts are.

    Attributes:
        number: place among all parts of the run, from 0.
        path: the file.
        start: first byte of the range.
        stop: the byte behind the range.
        source: see ``InputFile``.
    """

    number: int
    path: Path
    start: int
    stop: int
    source: str

    def __str__(self) -> str:
        return f"{self.path}, bytes {self.start:,} to {self.stop:,}"


def part_bytes_for(files: Sequence[InputFile]) -> int:
    """A part size by which work spreads evenly, 1 to 16 MiB. It depends on the size of the input alone."""
    total = sum(file.size for file in files)
    return min(max(total // _PARTS_WANTED, _SMALLEST), _LARGEST)


def cut_parts(files: Sequence[InputFile], part_bytes: int) -> Iterator[Part]:
    """Cuts files into parts of ``part_bytes`` bytes, the last of each file being shorter. No part spans two files."""
    number = 0
    for file in files:
        for start in range(0, file.size, part_bytes):
            yield Part(number, file.path, start, min(start + part_bytes, file.size), file.source)
            number += 1


def read_lines(part: Part) -> Iterator[tuple[int, bytes]]:
    r"""Yields (byte offset, line with its end) for each line of a part.

    Lines end with ``\n``, which the last one of a file may lack. A UTF-8 byte order mark at the start of the file is no
    part of its first line. Memory is that of the longest line.

    Raises:
        DataError: the file cannot be read, or has become shorter than it was.
    """
    try:
        with part.path.open("rb", buffering=_BUFFER_BYTES) as file:
            if part.start:
                # The byte before tells whether a line begins right here.
                file.seek(part.start - 1)
                position = part.start - 1 + len(file.readline(part.stop - part.start + 1))
            else:
                position = len(_UTF8_MARK) if file.read(len(_UTF8_MARK)) == _UTF8_MARK else 0
                file.seek(position)
            while position < part.stop:
                line = file.readline()
                if not line:
                    raise DataError(f"{part.path}: ended at byte {position:,}, shorter than when the run began")
                yield position, line
                position += len(line)
    except OSError as error:
        raise DataError(f"{part.path}: cannot be read: {error.strerror}") from None
