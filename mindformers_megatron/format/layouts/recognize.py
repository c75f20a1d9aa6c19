"""Which layout a pair is in, by what its index begins with."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from mindformers_megatron.errors import ConfigError, DataError
from mindformers_megatron.format.layout import MAGIC
from mindformers_megatron.format.layouts import mspt, tntidx
from mindformers_megatron.format.layouts.doc_ends import read_doc_ends
from mindformers_megatron.format.layouts.foreign import ForeignPair
from mindformers_megatron.format.layouts.mmididx import is_fairseq, read_fairseq, read_mmididx
from mindformers_megatron.format.layouts.mspt import read_mspt
from mindformers_megatron.format.layouts.npz import npz_path, read_npz
from mindformers_megatron.format.layouts.pickled import read_pickled
from mindformers_megatron.format.layouts.tntidx import read_tntidx
from mindformers_megatron.format.legacy import describe_layout
from mindformers_megatron.format.paths import bin_path, prefix_of

Reader = Callable[[str, np.dtype[Any] | None], ForeignPair]

READERS: dict[str, Reader] = {
    "megatron": read_mmididx,
    "fairseq": read_fairseq,
    "tntidx": read_tntidx,
    "mspt": read_mspt,
    "pickle": read_pickled,
    "npz": read_npz,
    "json": read_doc_ends,
}


def foreign_prefix(path: str | os.PathLike[str]) -> str:
    """The prefix of a pair, from the prefix itself or the name of one of its files."""
    return prefix_of(os.fspath(path).removesuffix(".npz"))


def open_foreign(
    path: str | os.PathLike[str], layout: str | None = None, dtype: np.dtype[Any] | None = None
) -> ForeignPair:
    """Opens a pair in any layout that is known.

    Args:
        path: the prefix, or one of its files.
        layout: one of ``READERS``; None: the index shows it.
        dtype: of the tokens; None: as the index says, or by the size of the ``.bin``.

    Raises:
        ConfigError: there is no layout of that name.
        DataError: there is no pair, its layout is not known, or it is damaged.
    """
    prefix = foreign_prefix(path)
    if not bin_path(prefix).is_file():
        if Path(path).is_file():
            raise DataError(
                f"{path}: no layout that is known: {bin_path(prefix).name} would have to be beside it (text becomes a "
                "pair by `mfm preprocess`)"
            )
        raise DataError(f"{bin_path(prefix)}: not found; every layout has its tokens in a .bin")
    name = layout or _recognize(prefix)
    if name not in READERS:
        raise ConfigError(f"unknown layout {name!r}; known are {', '.join(READERS)}")
    return READERS[name](prefix, dtype)


def _recognize(prefix: str) -> str:
    path = npz_path(prefix)
    head = _head(path)
    if head.startswith(MAGIC):
        return "fairseq" if is_fairseq(prefix) else "megatron"
    for name, magic in (("mspt", mspt.MAGIC), ("tntidx", tntidx.MAGIC), ("npz", b"PK\x03\x04")):
        if head.startswith(magic):
            return name
    # Of protocols 2 to 5; then of a dictionary in protocols 0 and 1.
    if (len(head) > 1 and head[0] == 0x80 and head[1] in (2, 3, 4, 5)) or head.startswith((b"(d", b"}q", b"}(")):
        return "pickle"
    if head.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{"):
        return "json"
    raise DataError(f"{path}: {describe_layout(head)}")


def _head(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(64)
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror}") from None
