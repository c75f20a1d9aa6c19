"""Megatron's own layout, read for its lengths alone; and fairseq's, which is the same without documents.

For a ``.bin`` that is of another type than its index says: where sequences begin in it follows from their lengths.
"""

from typing import Any

import numpy as np

from mindformers_megatron.errors import DataError
from mindformers_megatron.format.dtypes import DTYPE_CODES
from mindformers_megatron.format.index import map_index
from mindformers_megatron.format.layout import MAGIC
from mindformers_megatron.format.layouts.foreign import ForeignPair, check_lengths, token_type
from mindformers_megatron.format.mapping import map_file, view
from mindformers_megatron.format.paths import bin_path, idx_path

NAME = "Megatron"
FAIRSEQ_NAME = "fairseq's MMIDIDX"
# Without the number of document indices.
_FAIRSEQ_HEADER = 26
# fairseq's 7 is float64 and not float32; neither is a type for ids. It has two more.
_FAIRSEQ_CODES = {**DTYPE_CODES, 9: np.dtype("<u4"), 10: np.dtype("<u8")}


def is_fairseq(prefix: str) -> bool:
    """Whether an index of this magic has no documents, by its size."""
    data = map_file(idx_path(prefix))
    if data.size < _FAIRSEQ_HEADER or data[: len(MAGIC)].tobytes() != MAGIC:
        return False
    count = int.from_bytes(data[18:26].tobytes(), "little")
    return bool(data.size == _FAIRSEQ_HEADER + 12 * count)


def read_mmididx(prefix: str, dtype: np.dtype[Any] | None = None) -> ForeignPair:
    """Opens a pair of Megatron's own layout by its lengths and documents, whatever its pointers say.

    Args:
        prefix: of the pair.
        dtype: of the tokens; None: as the index says.

    Raises:
        DataError: lengths or documents are damaged, or do not fit the ``.bin``.
    """
    index = map_index(prefix)
    total = check_lengths(idx_path(prefix), index.sequence_lengths, unit="sequence")
    documents = index.document_indices.astype(np.int64)
    sequences = np.diff(documents)
    if not documents.size or documents[0] != 0 or documents[-1] != index.num_sequences or (sequences < 0).any():
        raise DataError(f"{idx_path(prefix)}: document indices do not ascend from 0 to {index.num_sequences:,}")
    tokens = token_type(bin_path(prefix), total, dtype or index.dtype)
    return ForeignPair(NAME, bin_path(prefix), tokens, index.sequence_lengths, sequences)


def read_fairseq(prefix: str, dtype: np.dtype[Any] | None = None) -> ForeignPair:
    """Opens a pair of fairseq's memory-mapped layout; each of its sequences becomes a document.

    Args:
        prefix: of the pair.
        dtype: of the tokens; None: as the index says.

    Raises:
        DataError: it is damaged, or does not fit its ``.bin``.
    """
    path = idx_path(prefix)
    data = map_file(path)
    code = int(data[17])
    if code not in _FAIRSEQ_CODES or _FAIRSEQ_CODES[code].kind == "f":
        raise DataError(f"{path}: dtype code {code} is none of token ids")
    count = int.from_bytes(data[18:26].tobytes(), "little")
    lengths = view(data, np.dtype("<i4"), count, _FAIRSEQ_HEADER)
    pointers = view(data, np.dtype("<i8"), count, _FAIRSEQ_HEADER + lengths.nbytes)
    declared = _FAIRSEQ_CODES[code]
    total = check_lengths(path, lengths, pointers // declared.itemsize, unit="sequence")
    return ForeignPair(FAIRSEQ_NAME, bin_path(prefix), token_type(bin_path(prefix), total, dtype or declared), lengths)
