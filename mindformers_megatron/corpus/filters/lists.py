"""Lists in files."""

import functools
from pathlib import Path

from mindformers_megatron.errors import ConfigError


@functools.lru_cache(maxsize=32)
def read_list(path: Path) -> tuple[str, ...]:
    """The lines of a file in UTF-8, without blank ones and those that begin with ``#``.

    Raises:
        ConfigError: it cannot be read.
    """
    try:
        text = path.read_text("utf-8-sig")
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise ConfigError(
            f"{path}: is not valid UTF-8: byte 0x{error.object[error.start]:02x} at {error.start:,}"
        ) from None
    return tuple(line for raw in text.splitlines() if (line := raw.strip()) and not line.startswith("#"))
