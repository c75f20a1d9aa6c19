"""``<prefix>.md5``: the checksums of a pair, as ``md5sum -c`` reads them."""

import os
import re
from pathlib import Path

from mindformers_megatron.errors import DataError
from mindformers_megatron.format.atomic import write_atomically
from mindformers_megatron.format.paths import bin_path, idx_path, prefix_of
from mindformers_megatron.format.writer import WrittenPair

# Two lines, with names as long as a file system allows.
_MAX_BYTES = 1 << 14
_LINE = re.compile(r"([0-9a-f]{32})  (.+)")


def write_md5(prefix: str | os.PathLike[str], pair: WrittenPair) -> None:
    """Writes the checksums beside the pair.

    Args:
        prefix: of the pair.
        pair: what was written there, with MD5.
    """
    name = prefix_of(prefix)
    sums = ((pair.bin_md5, bin_path(name)), (pair.idx_md5, idx_path(name)))
    lines = "".join(f"{md5}  {path.name}\n" for md5, path in sums)
    write_atomically(Path(f"{name}.md5"), lines.encode(errors="surrogateescape"))


def read_md5(prefix: str | os.PathLike[str]) -> dict[str, str] | None:
    """Reads the checksums beside a pair; None if there are none.

    Returns:
        The checksum of each file, hex, by its suffix (``.bin``, ``.idx``).

    Raises:
        DataError: it cannot be read, or is no such file.
    """
    name = prefix_of(prefix)
    path = Path(f"{name}.md5")
    try:
        with path.open("rb") as file:
            text = file.read(_MAX_BYTES).decode(errors="surrogateescape")
    except FileNotFoundError:
        return None
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror}") from None
    sums = {}
    for line in text.splitlines():
        found = _LINE.fullmatch(line)
        suffix = Path(found[2]).suffix if found else ""
        if not found or suffix not in (".bin", ".idx"):
            raise DataError(f"{path}: found {line[:60]!r}, expected lines as md5sum writes them; remove it")
        sums[suffix] = found[1]
    return sums
