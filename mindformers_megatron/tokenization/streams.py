"""Compressed files as streams of their content, known by their first bytes rather than by their names."""

import bz2
import contextlib
import gzip
import importlib
import io
import lzma
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from mindformers_megatron.errors import ConfigError, DataError

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
def open_compressed(path: Path, compression: str) -> Iterator[tuple[BinaryIO, BinaryIO]]:
    """(the content of a compressed file, the file on disk, whose position tells how far the former has come).

    Raises:
        DataError: it cannot be read, or its data is damaged or ends too early, also while it is read in the block.
        ConfigError: the library for it is not installed.
    """
    damages: tuple[type[BaseException], ...] = (lzma.LZMAError, zlib.error, *_errors_of("isal.isal_zlib", "zstandard"))
    try:
        with path.open("rb", buffering=_BUFFER_BYTES) as file:
            yield _decompressed(file, compression, path), file
    except EOFError:
        raise DataError(f"{path}: ends in the middle of its {compression} data; it was cut off, get it again") from None
    except damages as error:
        raise DataError(f"{path}: its {compression} data is damaged: {error}") from None
    except OSError as error:
        # gzip and bzip2 say so when a checksum is wrong.
        what = f"its {compression} data is damaged" if error.errno is None else "cannot be read"
        raise DataError(f"{path}: {what}: {error.strerror or error}") from None


def _decompressed(file: BinaryIO, compression: str, path: Path) -> Any:
    # What is opened here is closed with the file under it.
    if compression == "gzip":
        # isal is three times as fast; Python's own module does where it is not installed.
        try:
            return importlib.import_module("isal.igzip").open(file, "rb")
        except ImportError:
            return gzip.GzipFile(fileobj=file)
    if compression == "zstd":
        return io.BufferedReader(_ZstdStream(file, path), _BUFFER_BYTES)
    return lzma.LZMAFile(file) if compression == "xz" else bz2.BZ2File(file)


class _ZstdStream(io.RawIOBase):
    """Frames of zstd, one after the other. Not the library's own reader: it takes a cut-off file for a short one."""

    def __init__(self, file: BinaryIO, path: Path) -> None:
        try:
            zstandard: Any = importlib.import_module("zstandard")
        except ImportError:
            raise ConfigError(f"{path}: zstd needs the zstandard package; pip install zstandard") from None
        self._file = file
        self._decompressor = zstandard.ZstdDecompressor(max_window_size=_LARGEST_WINDOW)
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


def _errors_of(*modules: str) -> Iterator[type[BaseException]]:
    for name in modules:
        with contextlib.suppress(ImportError):
            module = importlib.import_module(name)
            yield getattr(module, "ZstdError", None) or module.error
