"""Files as they are read: decompressed, and known by their first bytes rather than by their names."""

import bz2
import contextlib
import io
import lzma
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, BinaryIO

from mindformers_megatron.corpus.optional import needed
from mindformers_megatron.errors import DataError

_BUFFER_BYTES = 1 << 20
# Of compressed data at a time: text is rarely more than ten times as large.
_CHUNK_BYTES = 1 << 17
# What ``zstd --long=31`` writes; by itself the library refuses more than 128 MiB.
_LARGEST_WINDOW = 1 << 31
_MAGIC = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd", b"\xfd7zXZ\0": "xz", b"BZh": "bzip2"}


def compression_of(path: Path) -> str | None:
    """How a file is compressed: ``gzip``, ``zstd``, ``xz``, ``bzip2``, or None.

    Raises:
        DataError: it cannot be read.
    """
    try:
        with path.open("rb") as file:
            head = file.read(8)
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror}") from None
    return next((name for magic, name in _MAGIC.items() if head.startswith(magic)), None)


@contextlib.contextmanager
def open_stream(path: Path) -> Iterator[BinaryIO]:
    """A file's content, decompressed if it is compressed, to be read from its beginning on.

    Raises:
        DataError: it cannot be read, or what is compressed is damaged or ends too early, also while it is read within
            the block.
    """
    compression = compression_of(path)
    try:
        with path.open("rb", buffering=_BUFFER_BYTES) as file:
            yield _decompressed(file, compression)
    except EOFError:
        raise DataError(f"{path}: ends in the middle of its {compression} data; it was cut off, get it again") from None
    except (lzma.LZMAError, _damage("isal.isal_zlib", "error"), _damage("zstandard", "ZstdError")) as error:
        raise DataError(f"{path}: its {compression} data is damaged: {error}") from None
    except OSError as error:
        # gzip and bzip2 say so when a checksum is wrong.
        what = f"its {compression} data is damaged" if compression and error.errno is None else "cannot be read"
        raise DataError(f"{path}: {what}: {error.strerror or error}") from None


def _decompressed(file: BinaryIO, compression: str | None) -> BinaryIO:
    raw: IO[bytes]
    if compression == "gzip":
        raw = needed("isal.igzip", "reading gzip").open(file, "rb")
    elif compression == "zstd":
        raw = io.BufferedReader(_ZstdStream(file), _BUFFER_BYTES)
    elif compression == "xz":
        raw = lzma.LZMAFile(file)  # noqa: SIM115 - closed with the file under it
    elif compression == "bzip2":
        raw = bz2.BZ2File(file)
    else:
        return file
    return raw  # type: ignore[return-value]


class _ZstdStream(io.RawIOBase):
    """Frames of zstd, one after the other. Not the library's own reader: it takes a cut-off file for a short one."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._decompressor: Any = needed("zstandard", "reading zstd").ZstdDecompressor(max_window_size=_LARGEST_WINDOW)
        self._frame: Any = None
        self._output = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._output:
            if self._frame is None or self._frame.eof:
                data = (self._frame.unused_data if self._frame is not None else b"") or self._file.read(_CHUNK_BYTES)
                if not data:
                    return 0
                self._frame = self._decompressor.decompressobj()
            elif not (data := self._file.read(_CHUNK_BYTES)):
                raise EOFError
            self._output = memoryview(self._frame.decompress(data))
        count = min(len(buffer), len(self._output))
        buffer[:count] = self._output[:count]
        self._output = self._output[count:]
        return count


def _damage(module: str, name: str) -> type[BaseException]:
    """The error a library raises on damaged data; one that nothing raises where it is not installed."""
    try:
        error: type[BaseException] = getattr(needed(module, "reading"), name)
    except Exception:
        return _NoError
    return error


class _NoError(Exception):
    pass
