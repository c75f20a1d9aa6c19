"""Lines of text files, plain or compressed, in whatever encoding, as UTF-8."""

import codecs
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from mindformers_megatron.corpus.readers.encodings import (
    SAMPLE_BYTES,
    Encoding,
    detect_encoding,
    whole_characters,
)
from mindformers_megatron.corpus.readers.parts import Slice
from mindformers_megatron.corpus.readers.streams import open_stream
from mindformers_megatron.corpus.rejects import Reject, excerpt
from mindformers_megatron.errors import DataError
from mindformers_megatron.tokenization.parts import Piece, read_lines

_CHUNK_BYTES = 1 << 18


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a file.

    Attributes:
        number: from 1.
        byte_offset: where it begins, in bytes of the uncompressed file; in those of UTF-8 where that has wide units.
        data: it, in UTF-8, with its end.
    """

    number: int
    byte_offset: int
    data: bytes


def lines_of(piece: Slice, on_reject: Callable[[Reject], None]) -> Iterator[Line]:
    """Yields the lines of a file or of a range of it; those that cannot be decoded are rejected.

    Raises:
        DataError: the file cannot be read, or is damaged or cut off.
    """
    path = piece.file.input.path
    if piece.stop is not None:
        part = Piece(path, piece.start, piece.stop, piece.file.input.source)
        yield from _decoded(read_lines(part), piece, piece.encoding or Encoding(), on_reject)
        return
    with open_stream(path) as stream:
        head = stream.read(SAMPLE_BYTES)
        whole = len(head) < SAMPLE_BYTES
        encoding = piece.encoding or detect_encoding([head if whole else whole_characters(head, is_first=True)])
        if encoding.is_stateful:
            yield from _decoded(_stateful_lines(head, stream, encoding, path), piece, Encoding(), on_reject)
        else:
            yield from _decoded(_plain_lines(head, stream), piece, encoding, on_reject)


def _decoded(
    lines: Iterator[tuple[int, bytes]], piece: Slice, encoding: Encoding, on_reject: Callable[[Reject], None]
) -> Iterator[Line]:
    number = piece.first_line - 1
    for offset, line in lines:
        number += 1
        if not encoding.is_utf8 and not line.isascii():
            try:
                line = encoding.decode(line).encode()
            except UnicodeDecodeError as error:
                found = f"byte 0x{line[error.start]:02x} at column {error.start + 1:,}"
                reason = f"it is not valid {encoding.name}, as the rest of the file seems to be: {found}"
                on_reject(Reject(str(piece.file.input.path), number, offset, reason, excerpt(line)))
                continue
        yield Line(number, offset, line)


def _plain_lines(head: bytes, stream: BinaryIO) -> Iterator[tuple[int, bytes]]:
    position = len(codecs.BOM_UTF8) if head.startswith(codecs.BOM_UTF8) else 0
    *lines, rest = _split(head[position:])
    for line in lines:
        yield position, line
        position += len(line)
    while line := rest + stream.readline():
        yield position, line
        position += len(line)
        rest = b""


def _stateful_lines(head: bytes, stream: BinaryIO, encoding: Encoding, path: Path) -> Iterator[tuple[int, bytes]]:
    decoder = codecs.getincrementaldecoder(encoding.name)()
    position, rest, data = 0, b"", head
    while data:
        following = stream.read(_CHUNK_BYTES)
        try:
            text = decoder.decode(data, final=not following)
        except UnicodeDecodeError as error:
            raise DataError(f"{path}: is not valid {encoding.name}: {error.reason}") from None
        *lines, rest = _split(rest + text.encode())
        for line in lines:
            yield position, line
            position += len(line)
        data = following
    if rest:
        yield position, rest


def _split(data: bytes) -> list[bytes]:
    """The lines with their ends, and what follows the last end."""
    # Not bytes.splitlines, for which a lone carriage return ends a line too.
    *lines, rest = data.split(b"\n")
    return [*(line + b"\n" for line in lines), rest]
