"""Opening an ``.idx``: the arrays, mapped, and every check that needs no scan."""

import os
import stat
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mindformers_megatron.errors import DataError
from mindformers_megatron.format.dtypes import DTYPE_CODES
from mindformers_megatron.format.layout import HEADER, MAGIC, VERSION, IndexLayout
from mindformers_megatron.format.legacy import describe_layout
from mindformers_megatron.format.mapping import map_file, view
from mindformers_megatron.format.paths import bin_path, idx_path, prefix_of

_INT32 = np.dtype("<i4")
_INT64 = np.dtype("<i8")
_INT8 = np.dtype("i1")
_WIDTHS = {dtype.itemsize for dtype in DTYPE_CODES.values()}
_REDO = "copy the pair again, or make it again with `mfm preprocess`"


@dataclass(frozen=True, slots=True, eq=False)
class Index:
    """The index of a pair.

    The arrays lie in the file at odd addresses. Slices and fancy indexing (``array[i]``) read only what they ask for,
    but ``numpy.searchsorted``, ``numpy.take`` and other functions that need aligned input first copy the whole array:
    search with ``search.py`` instead.

    Attributes:
        prefix: path of the pair without suffix.
        dtype: type of the tokens.
        sequence_lengths: int32[S], tokens.
        sequence_pointers: int64[S], bytes from the start of ``.bin``.
        document_indices: int64[D], D = documents + 1; document d is the sequences ``[d]`` to ``[d + 1]``.
        sequence_modes: int8[S] of a multimodal pair, else None.
        num_tokens: tokens in ``.bin``.
    """

    prefix: str
    dtype: np.dtype[Any]
    sequence_lengths: NDArray[np.int32]
    sequence_pointers: NDArray[np.int64]
    document_indices: NDArray[np.int64]
    sequence_modes: NDArray[np.int8] | None
    num_tokens: int

    @property
    def num_sequences(self) -> int:
        """S."""
        return len(self.sequence_lengths)

    @property
    def num_documents(self) -> int:
        """D - 1."""
        return len(self.document_indices) - 1

    def __reduce__(self) -> tuple[Callable[..., "Index"], tuple[str, bool]]:
        # Opened again rather than copied: the arrays can be gigabytes.
        return _reopen, (self.prefix, self.sequence_modes is not None)


def read_index(prefix: str | os.PathLike[str], *, multimodal: bool = False) -> Index:
    """Opens an index in O(1): the header and five values are read, everything else is mapped.

    What this cannot see is damage in the middle of the arrays or of the tokens.

    Args:
        prefix: the prefix, the ``.bin`` or the ``.idx``.
        multimodal: the index ends in one mode per sequence. The file itself does not say so.

    Raises:
        DataError: a file is missing, is no Megatron index, or contradicts itself or its ``.bin``.
    """
    index = map_index(prefix, multimodal=multimodal)
    path = idx_path(index.prefix)
    _check_documents(path, index)
    _check_tokens(path, index, _bin_size(index.prefix))
    return index


def map_index(prefix: str | os.PathLike[str], *, multimodal: bool = False) -> Index:
    """Opens an index that may contradict itself or its ``.bin``, to find out what is wrong with it.

    Args:
        prefix: the prefix, the ``.bin`` or the ``.idx``.
        multimodal: see ``read_index``.

    Returns:
        An index of which only the header has been checked. Its ``num_tokens`` are those that ``.bin`` has room for.

    Raises:
        DataError: a file is missing, or is no Megatron index of the size that its header says.
    """
    prefix = prefix_of(prefix)
    path = idx_path(prefix)
    bin_size = _bin_size(prefix)
    data = map_file(path)
    dtype, layout = _read_header(path, data, multimodal)
    count = layout.num_sequences
    return Index(
        prefix=prefix,
        dtype=dtype,
        sequence_lengths=view(data, _INT32, count, layout.lengths),
        sequence_pointers=view(data, _INT64, count, layout.pointers),
        document_indices=view(data, _INT64, layout.num_document_indices, layout.documents),
        sequence_modes=view(data, _INT8, count, layout.modes) if multimodal else None,
        num_tokens=bin_size // dtype.itemsize,
    )


def _reopen(prefix: str, multimodal: bool) -> Index:
    return read_index(prefix, multimodal=multimodal)


def _bin_size(prefix: str) -> int:
    tokens, index = bin_path(prefix), idx_path(prefix)
    sizes = {path: _file_size(path) for path in (tokens, index)}
    missing = [path for path, size in sizes.items() if size is None]
    if (size := sizes[tokens]) is not None and not missing:
        return size
    if Path(prefix).is_dir():
        raise DataError(f"{prefix}: is a folder; give the prefix, the .bin or the .idx of one pair in it")
    archive = Path(prefix + ".idx.npz")
    if index in missing and _file_size(archive) is not None:
        raise DataError(f"{archive}: is a NumPy .npz index, not Megatron's .idx; `mfm convert` makes a pair of it")
    if len(missing) == 2:
        raise DataError(f"{prefix}: no such pair: neither {tokens.name} nor {index.name} is a file in {tokens.parent}")
    other = index if missing[0] is tokens else tokens
    raise DataError(f"{missing[0]}: not found beside {other.name}; a pair needs both files: {_REDO}")


def _file_size(path: Path) -> int | None:
    try:
        status = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise DataError(f"{path}: cannot be opened: {error.strerror}") from None
    return status.st_size if stat.S_ISREG(status.st_mode) else None


def _read_header(path: Path, data: NDArray[np.uint8], multimodal: bool) -> tuple[np.dtype[Any], IndexLayout]:
    head = data[:64].tobytes()
    if not head:
        raise DataError(f"{path}: is empty, expected a Megatron index of at least {HEADER.size} bytes; {_REDO}")
    if not head.startswith(MAGIC):
        raise DataError(f"{path}: expected a Megatron index (magic {MAGIC!r}), {describe_layout(head)}")
    if len(head) < HEADER.size:
        raise DataError(f"{path}: {len(head)} bytes, shorter than the {HEADER.size} bytes of a header; {_REDO}")
    _, version, code, num_sequences, num_document_indices = HEADER.unpack_from(head)
    if version == int.from_bytes(VERSION.to_bytes(8, "little"), "big"):
        raise DataError(
            f"{path}: is big-endian, Megatron's format is little-endian; write it again on a little-endian machine"
        )
    if version != VERSION:
        raise DataError(f"{path}: version {version}, expected {VERSION}; {_REDO}")
    if code not in DTYPE_CODES:
        known = ", ".join(f"{code} {dtype.name}" for code, dtype in DTYPE_CODES.items())
        raise DataError(f"{path}: dtype code {code}, expected one of {known}; {_REDO}")
    layout = IndexLayout(num_sequences, num_document_indices, multimodal)
    if data.size != layout.size:
        raise DataError(f"{path}: {_size_mismatch(data.size, layout)}")
    return DTYPE_CODES[code], layout


def _size_mismatch(size: int, layout: IndexLayout) -> str:
    counts = f"{layout.num_sequences} sequences and {layout.num_document_indices} document indices"
    text = f"{size} bytes, but its header ({counts}) needs {layout.size}"
    other = IndexLayout(layout.num_sequences, layout.num_document_indices, not layout.multimodal)
    if size == other.size:
        if layout.multimodal:
            return f"{text} for a multimodal pair; this one has no modes, open it with multimodal=False"
        return f"{text}; the rest are the modes of a multimodal pair, open it with multimodal=True"
    return f"{text}: {'truncated' if size < layout.size else 'damaged'}; {_REDO}"


def _check_documents(path: Path, index: Index) -> None:
    if len(index.document_indices) == 0:
        raise DataError(f"{path}: no document indices, expected at least the leading 0; {_REDO}")
    first, last = int(index.document_indices[0]), int(index.document_indices[-1])
    if first != 0:
        raise DataError(f"{path}: the first document index is {first}, expected 0; {_REDO}")
    if last != index.num_sequences:
        raise DataError(
            f"{path}: the last document index is {last}, expected the {index.num_sequences} sequences; {_REDO}"
        )


def _check_tokens(path: Path, index: Index, bin_size: int) -> None:
    tokens = bin_path(index.prefix)
    itemsize = index.dtype.itemsize
    if index.num_sequences == 0:
        if bin_size:
            raise DataError(f"{tokens}: {bin_size} bytes, but {path.name} has no sequences, expected none; {_REDO}")
        return
    start, first = int(index.sequence_pointers[0]), int(index.sequence_lengths[0])
    pointer, length = int(index.sequence_pointers[-1]), int(index.sequence_lengths[-1])
    if start != 0:
        raise DataError(f"{path}: the first sequence is at byte {start}, expected 0; {_REDO}")
    if min(first, pointer, length) < 0:
        lengths = f"first: {first} tokens; last: {length} tokens at byte {pointer}"
        raise DataError(f"{path}: a sequence of negative length or position ({lengths}); {_REDO}")
    # Not only the end is looked at: where the last sequence is empty, it is no witness of a wrong dtype.
    if index.num_sequences > 1 and (second := int(index.sequence_pointers[1])) != first * itemsize:
        text = f"sequence 0 is {first} tokens of {index.dtype.name}, but sequence 1 is at byte {second}"
        # Pointers count bytes, so that they show the width the writer had in mind, whatever the dtype code says.
        if first and second % first == 0 and second // first in _WIDTHS:
            raise DataError(f"{path}: {text}: {second // first} bytes each, so the dtype code is wrong; {_REDO}")
        raise DataError(f"{path}: {text}, expected {first * itemsize}; {_REDO}")
    end = pointer + length * itemsize
    if end == bin_size:
        return
    text = f"{bin_size} bytes, but {path.name} ({index.dtype.name}) ends at byte {end}"
    width, inexact = divmod(bin_size * itemsize, end) if end else (0, 1)
    if not inexact and width in _WIDTHS:
        raise DataError(f"{tokens}: {text}, as if written with {width} instead of {itemsize} bytes a token; {_REDO}")
    raise DataError(f"{tokens}: {text}: {'truncated, or ' if bin_size < end else ''}not the .bin of this .idx; {_REDO}")


def token_start(index: Index, document: int) -> int:
    """How many tokens stand before a document, or before the end for ``num_documents``. Reads two values."""
    sequence = int(index.document_indices[document])
    if sequence == index.num_sequences:
        return index.num_tokens
    return int(index.sequence_pointers[sequence]) // index.dtype.itemsize
