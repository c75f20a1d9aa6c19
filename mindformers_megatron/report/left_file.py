"""Reading a file that an earlier command left behind: whole, but never more than such a file can be."""

from pathlib import Path

from mindformers_megatron.errors import DataError

_MOST_BYTES = 256 << 20


def read_left_file(path: Path, kind: str) -> bytes:
    """Reads a file.

    Args:
        path: The file.
        kind: What it should be, for messages.

    Raises:
        DataError: One line, where it cannot be read, or is far larger than such a file gets.
    """
    try:
        with path.open("rb") as file:
            text = file.read(_MOST_BYTES + 1)
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror}") from None
    if len(text) > _MOST_BYTES:
        raise DataError(f"{path}: larger than {_MOST_BYTES >> 20} MB; this is no {kind}")
    return text
