"""Files as they are read: decompressed if they are compressed."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from mindformers_megatron.errors import DataError
from mindformers_megatron.tokenization.streams import compression_of, open_compressed

_BUFFER_BYTES = 1 << 20


@contextlib.contextmanager
def open_stream(path: Path) -> Iterator[BinaryIO]:
    """A file's content, decompressed if it is compressed, to be read from its beginning on.

    Raises:
        DataError: it cannot be read, or what is compressed is damaged or ends too early, also while it is read within
            the block.
        ConfigError: the library for its compression is not installed.
    """
    if compression := compression_of(path):
        with open_compressed(path, compression) as (content, _):
            yield content
        return
    try:
        with path.open("rb", buffering=_BUFFER_BYTES) as file:
            yield file
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror}") from None
