"""Cutting the input into parts that can be tokenized independently."""

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from mindformers_megatron.errors import DataError
from mindformers_megatron.tokenization.inputs import STDIN, InputFile
from mindformers_megatron.tokenization.parquet import row_groups
from mindformers_megatron.tokenization.streams import compression_of, open_compressed

UTF8_MARK = b"\xef\xbb\xbf"
_BUFFER_BYTES = 1 << 20
# Around each end of a block, so much is read twice.
_CHUNK_BYTES = 1 << 15
_SMALLEST, _LARGEST = 1 << 22, 1 << 23
_PARTS_WANTED = 64
_FILES_PER_PART = 1 << 12


@dataclass(frozen=True, slots=True)
class Piece:
    """Consecutive records of one file.

    Of a plain file: the lines that begin in bytes ``[start, stop)``; the last of them may end behind it. A line belongs
    to the piece its first byte is in, so that cutting is arithmetic: nobody has to look for line ends first, and each
    line is in exactly one piece, wherever the cuts are.

    Attributes:
        path: the file.
        start: first byte of the range: of the file, or of its content where that is compressed; or first row.
        stop: the byte or row behind the range.
        source: see ``InputFile``.
        is_named: likewise.
        first_line: number of the line or row it begins with; None: not known yet, since lines before it are not
            counted.
        data: the lines themselves, whole ones, where the file can be read only once and from its beginning.
        row_group: of Parquet, whose rows these are.
        disk_bytes: how much of the file on disk it stands for.
    """

    path: Path
    start: int
    stop: int
    source: str
    is_named: bool = False
    first_line: int | None = 1
    data: bytes | None = field(default=None, repr=False)
    row_group: int | None = None
    disk_bytes: int = 0

    def __str__(self) -> str:
        unit = "bytes" if self.row_group is None else "rows"
        return f"{self.path}, {unit} {self.start:,} to {self.stop:,}"


@dataclass(frozen=True, slots=True)
class Part:
    """What is tokenized at a time: a piece of a file, or many small ones.

    Attributes:
        number: place among all parts of the run, from 0.
        pieces: in order; only the first may begin in the midst of a file.
    """

    number: int
    pieces: tuple[Piece, ...]

    def __str__(self) -> str:
        more = f" and {len(self.pieces) - 1} more files" if len(self.pieces) > 1 else ""
        return f"{self.pieces[0]}{more}"


def part_bytes_for(files: Sequence[InputFile]) -> int:
    """A part size by which work spreads evenly, 4 to 8 MiB. It depends on the size of the input alone."""
    total = sum(file.size for file in files)
    return min(max(total // _PARTS_WANTED, _SMALLEST), _LARGEST)


def can_be_cut(file: InputFile) -> bool:
    """Whether pieces of a file can be read apart, by whoever encodes them; others are read from their beginning."""
    return file.path != STDIN and (file.is_parquet or not compression_of(file.path))


def cut_parts(
    files: Sequence[InputFile], part_bytes: int, *, on_stdin: Callable[[bytes], None] = lambda data: None
) -> Iterator[Part]:
    """Cuts files into parts of about ``part_bytes`` bytes; small files are taken together.

    What is compressed, or comes from standard input, is read here, part by part.

    Args:
        files: the input.
        part_bytes: size of a part.
        on_stdin: told each block of standard input.

    Raises:
        DataError: a file cannot be read, is damaged or cut off.
    """
    number = 0
    group: list[Piece] = []
    size = 0
    for file in files:
        for piece in _cut(file, part_bytes, on_stdin):
            bytes_ = piece.disk_bytes if piece.data is None else len(piece.data)
            begins_within = piece.start > 0
            if group and (begins_within or size + bytes_ > part_bytes or len(group) == _FILES_PER_PART):
                yield Part(number, tuple(group))
                number, group, size = number + 1, [], 0
            group.append(piece)
            size += bytes_
    if group:
        yield Part(number, tuple(group))


def _cut(file: InputFile, part_bytes: int, on_stdin: Callable[[bytes], None]) -> Iterator[Piece]:
    origin = (file.source, file.is_named)
    if file.path == STDIN:
        yield from _cut_stream(sys.stdin.buffer, None, file, part_bytes, on_stdin)
    elif file.is_parquet:
        row = 0
        groups = row_groups(file.path)
        for group, rows in enumerate(groups):
            done, next_ = file.size * group // len(groups), file.size * (group + 1) // len(groups)
            yield Piece(file.path, row, row + rows, *origin, row + 1, row_group=group, disk_bytes=next_ - done)
            row += rows
    elif compression := compression_of(file.path):
        with open_compressed(file.path, compression) as (stream, on_disk):
            yield from _cut_stream(stream, on_disk, file, part_bytes)
    else:
        for start in range(0, file.size, part_bytes):
            stop = min(start + part_bytes, file.size)
            yield Piece(file.path, start, stop, *origin, None if start else 1, disk_bytes=stop - start)


def _cut_stream(
    stream: BinaryIO,
    on_disk: BinaryIO | None,
    file: InputFile,
    part_bytes: int,
    on_block: Callable[[bytes], None] = lambda data: None,
) -> Iterator[Piece]:
    start, line, disk = 0, 1, 0
    block = _read_block(stream, part_bytes)
    while block:
        on_block(block)
        following = _read_block(stream, part_bytes)
        reached = disk if on_disk is None else on_disk.tell() if following else file.size
        stop = start + len(block)
        yield Piece(file.path, start, stop, file.source, file.is_named, line, block, disk_bytes=reached - disk)
        line += block.count(b"\n")
        start, block, disk = stop, following, reached


def _read_block(stream: BinaryIO, size: int) -> bytes:
    """Whole lines of about so many bytes."""
    block = stream.read(size)
    return block if not block or block.endswith(b"\n") else block + stream.readline()


def read_blocks(piece: Piece, block_bytes: int) -> Iterator[tuple[int, bytes]]:
    r"""Yields (byte offset, some whole lines) until all lines of a piece are there.

    Lines end with ``\n``, which the last one of a file may lack. A UTF-8 byte order mark at the start of the file is no
    part of its first line. A block is longer than ``block_bytes`` by its last line at most.

    Raises:
        DataError: the file cannot be read, or has become shorter than it was.
    """
    if piece.data is not None:
        yield from _blocks_of(piece.data, piece.start, block_bytes)
        return
    try:
        with piece.path.open("rb", buffering=_CHUNK_BYTES) as file:
            position = _first_line_start(file, piece)
            while position < piece.stop:
                stop = _line_end(file, min(position + block_bytes, piece.stop))
                # Without a name for the block here, so that its memory goes when the reader is done with it.
                yield position, _read_exactly(file, position, stop, piece)
                position = stop
    except OSError as error:
        raise DataError(f"{piece.path}: cannot be read: {error.strerror}") from None


def read_lines(piece: Piece) -> Iterator[tuple[int, bytes]]:
    """Yields (byte offset, line with its end) for each line of a piece, in the memory of the longest.

    Raises:
        DataError: see ``read_blocks``.
    """
    for offset, block in read_blocks(piece, _BUFFER_BYTES):
        position = 0
        while position < len(block):
            end = block.find(b"\n", position) + 1 or len(block)
            yield offset + position, block[position:end]
            position = end


def _first_line_start(file: BinaryIO, piece: Piece) -> int:
    if not piece.start:
        return len(UTF8_MARK) if file.read(len(UTF8_MARK)) == UTF8_MARK else 0
    return _line_end(file, piece.start)


def _line_end(file: BinaryIO, position: int) -> int:
    """Where the line ends that the byte before a position is in; the end of the file if it ends nowhere."""
    # Looked for before it is read: joining the chunks of a line of a gigabyte would take two.
    position -= 1
    file.seek(position)
    while chunk := file.read(_CHUNK_BYTES):
        end = chunk.find(b"\n") + 1
        if end:
            return position + end
        position += len(chunk)
    return position


def _read_exactly(file: BinaryIO, start: int, stop: int, piece: Piece) -> bytes:
    file.seek(start)
    block = file.read(stop - start)
    if len(block) < stop - start or not block:
        raise DataError(f"{piece.path}: ended at byte {start:,}, shorter than when the run began")
    return block


def _blocks_of(data: bytes, offset: int, block_bytes: int) -> Iterator[tuple[int, bytes]]:
    position = len(UTF8_MARK) if offset == 0 and data.startswith(UTF8_MARK) else 0
    while position < len(data):
        end = data.find(b"\n", min(position + block_bytes, len(data)) - 1) + 1 or len(data)
        yield offset + position, data[position:end]
        position = end
