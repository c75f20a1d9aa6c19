r"""The TNTIDX layout of fairseq, and of Megatron before its memory-mapped one ("lazy" and "cached").

Little-endian, no padding::

    8  "TNTIDX\0\0"    8  version (1)    8  dtype code    8  bytes of a token    8  sequences S    8  sizes Z
    [8  document indices D]    8(S+1) dimension offsets    8(S+1) data offsets, tokens    8Z sizes, tokens
    [8D document indices]

Megatron's has document indices, as in its present layout; fairseq's has none, and its ids are one too high.
"""

import struct
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mindformers_megatron.errors import DataError
from mindformers_megatron.format.layouts.foreign import ForeignPair, check_lengths, token_type
from mindformers_megatron.format.mapping import map_file, view
from mindformers_megatron.format.paths import bin_path, idx_path

NAME = "TNTIDX"
MAGIC = b"TNTIDX\x00\x00"
CODES = {1: "u1", 2: "i1", 3: "<i2", 4: "<i4", 5: "<i8", 8: "<u2", 9: "<u4", 10: "<u8"}
_HEADER = struct.Struct("<8sQQQQQ")
_INT64 = np.dtype("<i8")


def read_tntidx(prefix: str, dtype: np.dtype[Any] | None = None) -> ForeignPair:
    """Opens a pair of this layout.

    Args:
        prefix: of the pair.
        dtype: of the tokens; None: as the header says.

    Raises:
        DataError: the index is damaged, does not hold texts, or does not fit its ``.bin``.
    """
    path = idx_path(prefix)
    data = map_file(path)
    if data.size < _HEADER.size + 8:
        raise DataError(f"{path}: {data.size} bytes, shorter than a header of {_HEADER.size + 8}; it was cut off")
    _, version, code, _, count, sizes = _HEADER.unpack(data[: _HEADER.size].tobytes())
    if version != 1 or code not in CODES:
        raise DataError(f"{path}: version {version} and dtype code {code}, expected 1 and one of {sorted(CODES)}")
    if sizes != count:
        raise DataError(f"{path}: {count:,} sequences with {sizes:,} dimensions; only texts, which have one, are read")
    without = _HEADER.size + 16 * (count + 1) + 8 * count
    documents = int(view(data, _INT64, 1, _HEADER.size)[0])
    has_documents = documents > 0 and data.size == without + 8 + 8 * documents
    if not has_documents and data.size != without:
        raise DataError(
            f"{path}: {data.size:,} bytes, but {count:,} sequences need {without:,} at least; it was cut off"
        )
    at = _HEADER.size + (8 if has_documents else 0)
    dimensions = view(data, _INT64, count + 1, at)
    offsets = view(data, _INT64, count + 1, at + dimensions.nbytes)
    lengths = view(data, _INT64, count, at + dimensions.nbytes + offsets.nbytes)
    check_lengths(path, np.broadcast_to(np.int64(1), (count,)), dimensions, unit="sequence of several dimensions")
    total = check_lengths(path, lengths, offsets, unit="sequence")
    sequences = None
    if has_documents:
        sequences = _sequences(prefix, view(data, _INT64, documents, data.size - 8 * documents), count)
    tokens = token_type(bin_path(prefix), total, dtype or np.dtype(CODES[code]))
    return ForeignPair(NAME, bin_path(prefix), tokens, lengths, sequences, added=0 if has_documents else 1)


def _sequences(prefix: str, documents: NDArray[np.int64], count: int) -> NDArray[np.int64]:
    # A last document that was never ended has the rest.
    ends = documents if documents[-1] == count else np.append(documents, count)
    sequences = np.diff(ends)
    if ends[0] != 0 or (sequences < 0).any() or ends[-1] > count:
        raise DataError(f"{idx_path(prefix)}: document indices do not ascend from 0 to {count:,}")
    return sequences
