"""Arrow columns from Python's values, and back.

Not by ``pyarrow.array`` and ``to_numpy``: they import pandas, where that is installed, to ask whether their argument is
a series, and that takes longer than to tokenize ten megabytes.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from mindformers_megatron.errors import DataError

if TYPE_CHECKING:
    import pyarrow as pa


def text_column(values: Sequence[str | None]) -> "pa.StringArray":
    """Texts, of less than 2 GiB together; None is null.

    Raises:
        UnicodeEncodeError: one is not valid Unicode.
        DataError: they are longer.
    """
    import pyarrow as pa

    texts = [value for value in values if value is not None]
    joined = "".join(texts)
    # As many bytes as characters; otherwise each text has to say.
    of_texts = texts if joined.isascii() else [text.encode() for text in texts]
    lengths = np.fromiter(map(len, of_texts), np.int64, len(texts))
    valid = None
    if len(texts) < len(values):
        has_value = np.fromiter((value is not None for value in values), bool, len(values))
        valid = pa.py_buffer(np.packbits(has_value, bitorder="little"))
        of_all = np.zeros(len(values), np.int64)
        of_all[has_value] = lengths
        lengths = of_all
    offsets = np.concatenate(([0], np.cumsum(lengths)))
    return pa.StringArray.from_buffers(len(values), _offsets(offsets), pa.py_buffer(joined.encode()), valid)


def repeated_text(value: str, count: int) -> "pa.StringArray":
    """The same text in every row.

    Raises:
        UnicodeEncodeError: it is not valid Unicode.
        DataError: all rows together are 2 GiB or longer.
    """
    import pyarrow as pa

    encoded = value.encode()
    offsets = np.arange(count + 1) * len(encoded)
    return pa.StringArray.from_buffers(count, _offsets(offsets), pa.py_buffer(encoded * count))


def integer_column(values: NDArray[np.int64]) -> "pa.Int64Array":
    """Integers, int64[N]."""
    import pyarrow as pa

    return pa.Int64Array.from_buffers(pa.int64(), values.size, [None, pa.py_buffer(np.ascontiguousarray(values))])


def _offsets(offsets: NDArray[np.int64]) -> "pa.Buffer":
    import pyarrow as pa

    if offsets[-1] > np.iinfo(np.int32).max:
        raise DataError(f"provenance with {offsets[-1]:,} bytes at once, expected less than 2 GiB; shorten the records")
    return pa.py_buffer(offsets.astype(np.int32))


def integers_of(column: "pa.ChunkedArray") -> NDArray[np.int64]:
    """The values of a column of int64 without nulls, int64[N]."""
    chunks = [
        np.frombuffer(chunk.buffers()[1], np.int64, len(chunk), chunk.offset * 8)
        for chunk in column.chunks
        if len(chunk)
    ]
    return np.concatenate(chunks) if chunks else np.empty(0, np.int64)
