"""The pairs of a folder."""

import os
from pathlib import Path

from mindformers_megatron.errors import ConfigError, DataError
from mindformers_megatron.format.paths import prefix_of

_SUFFIXES = (".bin", ".idx")


def pairs_in(folder: str | os.PathLike[str], *, leave_out: str | os.PathLike[str] | None = None) -> list[str]:
    """Finds the pairs that lie in a folder, not in the folders below it.

    Args:
        folder: where to look.
        leave_out: the prefix of a pair that is to be written there and so is none of those asked for, if it exists.

    Returns:
        Their prefixes in the order of their names, which is the order in which Megatron's tool takes them.

    Raises:
        ConfigError: it is no folder that can be read, or has no pairs.
        DataError: one of a pair's two files is missing.
    """
    path = Path(folder)
    try:
        names = sorted(entry.name for entry in os.scandir(path) if entry.name.endswith(_SUFFIXES) and entry.is_file())
    except OSError as error:
        raise ConfigError(f"{path}: is no folder that can be read: {error.strerror}") from None
    left_out = None if leave_out is None else Path(prefix_of(leave_out)).resolve()
    present = set(names)
    prefixes = []
    for stem in sorted({name[:-4] for name in names}):
        if left_out is not None and (path / stem).resolve() == left_out:
            continue
        missing = [stem + suffix for suffix in _SUFFIXES if stem + suffix not in present]
        if missing:
            raise DataError(
                f"{path / missing[0]}: not found, but the other file of this pair is there; complete the pair, or move "
                "the other file away"
            )
        prefixes.append(str(path / stem))
    if not prefixes:
        raise ConfigError(f"{path}: no .bin/.idx pairs in this folder")
    return prefixes
