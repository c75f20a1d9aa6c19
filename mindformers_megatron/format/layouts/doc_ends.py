"""A JSON text as index: ``doc_ends``, the token behind each document, and ``total_tokens``."""

from typing import Any, BinaryIO

import numpy as np
import orjson
from numpy.typing import NDArray

from mindformers_megatron.errors import DataError
from mindformers_megatron.format.layouts.foreign import MOST_DOCUMENTS, ForeignPair, check_lengths, token_type
from mindformers_megatron.format.paths import bin_path, idx_path

NAME = "JSON doc_ends"
_MOST_BYTES = 14 * MOST_DOCUMENTS


def read_doc_ends(prefix: str, dtype: np.dtype[Any] | None = None) -> ForeignPair:
    """Opens a pair of this layout.

    Args:
        prefix: of the pair.
        dtype: of the tokens; None: by the size of the ``.bin``.

    Raises:
        DataError: the index is no such JSON, or does not fit its ``.bin``.
    """
    path = idx_path(prefix)
    try:
        if path.stat().st_size > _MOST_BYTES:
            raise DataError(f"{path}: more than {_MOST_BYTES:,} bytes, too large for a JSON index")
        content = orjson.loads(path.read_bytes())
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror}") from None
    except orjson.JSONDecodeError as error:
        raise DataError(f"{path}: is no JSON: {error}; it was cut off, or is something else") from None
    ends = content.get("doc_ends") if isinstance(content, dict) else None
    if not isinstance(ends, list) or not set(map(type, ends)) <= {int}:
        raise DataError(f"{path}: expected an object with doc_ends, a list of integers")
    try:
        sizes = np.diff(np.array(ends, np.int64), prepend=0)
    except OverflowError:
        raise DataError(f"{path}: doc_ends has a number beyond 64 bits") from None
    total = check_lengths(path, sizes, unit="document")
    stated = content.get("total_tokens", total)
    if stated != total:
        raise DataError(f"{path}: total_tokens is {stated!r}, but the last document ends at {total:,}")
    return ForeignPair(NAME, bin_path(prefix), token_type(bin_path(prefix), total, dtype), sizes)


def write_doc_ends(file: BinaryIO, sizes: NDArray[np.int64]) -> None:
    """Writes an index of this layout.

    Args:
        file: what to write to.
        sizes: int64[N], tokens of each document.
    """
    ends = np.cumsum(sizes)
    total = int(ends[-1]) if ends.size else 0
    file.write(orjson.dumps({"doc_ends": ends, "total_tokens": total}, option=orjson.OPT_SERIALIZE_NUMPY))
