"""A pair is named by its prefix; these are the names of its files."""

import os
from pathlib import Path

from mindformers_megatron.errors import ConfigError

_SUFFIXES = (".bin", ".idx")


def prefix_of(path: str | os.PathLike[str]) -> str:
    """The prefix of a pair, from the prefix itself, its ``.bin`` or its ``.idx``.

    Raises:
        ConfigError: nothing is left to be a name.
    """
    text = os.fspath(path)
    if not isinstance(text, str):
        raise ConfigError(f"dataset path {text!r} is {type(text).__name__}; give text or a Path")
    prefix = text[: -len(_SUFFIXES[0])] if text.endswith(_SUFFIXES) else text
    if not os.path.basename(prefix):  # noqa: PTH119 - Path would drop the trailing slash that matters here
        raise ConfigError(f"dataset path {text!r} names no pair; give a prefix, a .bin or an .idx")
    if "\0" in prefix:
        raise ConfigError(f"dataset path {text!r} has a NUL in it; give a prefix, a .bin or an .idx")
    return prefix


def bin_path(prefix: str) -> Path:
    """The tokens."""
    return Path(prefix + ".bin")


def idx_path(prefix: str) -> Path:
    """The index."""
    return Path(prefix + ".idx")


def metadata_path(prefix: str) -> Path:
    """What the tokens mean (see ``metadata.py``)."""
    return Path(prefix + ".metadata.json")


def docs_path(prefix: str) -> Path:
    """Where each document comes from (see ``provenance.py``)."""
    return Path(prefix + ".docs.parquet")
