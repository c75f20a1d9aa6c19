"""The MSPT layout: a header with dtype and sequence length, then offsets, then sizes.

Little-endian, no padding::

    4  "MSPT"    4  version (1)    4  dtype code    4  sequence length    8  documents N
    8(N+1) offsets, tokens    8N sizes, tokens

Code 1 is uint16, code 2 is int32.
"""

import struct
from typing import Any, BinaryIO

import numpy as np

from mindformers_megatron.errors import DataError
from mindformers_megatron.format.layouts.foreign import ForeignPair, check_lengths, token_type
from mindformers_megatron.format.mapping import map_file, view
from mindformers_megatron.format.paths import bin_path, idx_path

NAME = "MSPT"
MAGIC = b"MSPT"
CODES: dict[int, np.dtype[Any]] = {1: np.dtype("<u2"), 2: np.dtype("<i4")}
_HEADER = struct.Struct("<4siiiq")
_INT64 = np.dtype("<i8")


def read_mspt(prefix: str, dtype: np.dtype[Any] | None = None) -> ForeignPair:
    """Opens a pair of this layout.

    Args:
        prefix: of the pair.
        dtype: of the tokens; None: as the header says.

    Raises:
        DataError: the index is damaged, or does not fit its ``.bin``.
    """
    path = idx_path(prefix)
    data = map_file(path)
    if data.size < _HEADER.size:
        raise DataError(f"{path}: {data.size} bytes, shorter than the {_HEADER.size} of a header; it was cut off")
    magic, version, code, seq_length, documents = _HEADER.unpack(data[: _HEADER.size].tobytes())
    if magic != MAGIC or version != 1 or code not in CODES:
        raise DataError(f"{path}: version {version} and dtype code {code}, expected 1, and 1 (uint16) or 2 (int32)")
    expected = _HEADER.size + 8 * (2 * documents + 1)
    if documents < 0 or data.size != expected:
        raise DataError(f"{path}: {data.size:,} bytes, but {documents:,} documents need {expected:,}; it was cut off")
    offsets = view(data, _INT64, documents + 1, _HEADER.size)
    sizes = view(data, _INT64, documents, _HEADER.size + offsets.nbytes)
    total = check_lengths(path, sizes, offsets, unit="document")
    tokens = token_type(bin_path(prefix), total, dtype or CODES[code])
    return ForeignPair(NAME, bin_path(prefix), tokens, sizes, seq_length=seq_length if seq_length > 0 else None)


def write_mspt(file: BinaryIO, dtype: np.dtype[Any], sizes: np.ndarray[Any, Any], seq_length: int) -> None:
    """Writes an index of this layout.

    Args:
        file: what to write to.
        dtype: of the tokens: one of ``CODES``.
        sizes: int64[N], tokens of each document.
        seq_length: for the header.
    """
    code = next(code for code, known in CODES.items() if known == dtype)
    file.write(_HEADER.pack(MAGIC, 1, code, seq_length, sizes.size))
    file.write(np.concatenate(([0], np.cumsum(sizes, dtype=np.int64))).astype(_INT64).data)
    file.write(sizes.astype(_INT64).data)
