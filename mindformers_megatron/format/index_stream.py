"""Writing an ``.idx`` front to back, in constant memory."""

import os
import tempfile
from typing import IO, Any

import numpy as np

from mindformers_megatron.format.atomic import StagedFile
from mindformers_megatron.format.dtypes import dtype_code
from mindformers_megatron.format.layout import HEADER, IndexLayout, header

_CHUNK = 1 << 17
_BUFFER_BYTES = 1 << 18


class IndexStream:
    """An index that grows.

    Lengths go to their final place behind an empty header. What stands behind them waits in nameless files, which the
    system removes by itself if the process dies. Counts and pointers follow from the lengths in ``finish``.

    Args:
        staged: the empty file. The nameless files lie in its folder: they get as large as the index, too large for some
            ``/tmp``.
        dtype: type of the tokens.
        multimodal: the index ends in one mode per sequence.
    """

    def __init__(self, staged: StagedFile, dtype: np.dtype[Any], *, multimodal: bool) -> None:
        self._file = staged.file
        self._dtype = dtype
        self._multimodal = multimodal
        folder = staged.path.parent
        self._documents: IO[bytes] = tempfile.TemporaryFile(dir=folder, buffering=_BUFFER_BYTES)  # noqa: SIM115
        self._modes: IO[bytes] = tempfile.TemporaryFile(dir=folder, buffering=_BUFFER_BYTES)  # noqa: SIM115
        self._file.write(bytes(HEADER.size))
        self._documents.write(bytes(8))

    def add_lengths(self, lengths: bytes | memoryview) -> None:
        """Appends little-endian int32 sequence lengths."""
        self._file.write(lengths)

    def add_documents(self, ends: bytes | memoryview) -> None:
        """Appends little-endian int64 document ends, counted in sequences."""
        self._documents.write(ends)

    def add_modes(self, modes: bytes | memoryview) -> None:
        """Appends int8 modes."""
        self._modes.write(modes)

    def finish(self) -> None:
        """Writes pointers, documents, modes and the header; the file is complete then, and still open."""
        self._file.flush()
        num_sequences = (self._file.tell() - HEADER.size) // 4
        num_document_indices = self._documents.tell() // 8
        layout = IndexLayout(num_sequences, num_document_indices, self._multimodal)
        position = 0
        for first in range(0, num_sequences, _CHUNK):
            count = min(_CHUNK, num_sequences - first)
            data = os.pread(self._file.fileno(), 4 * count, layout.lengths + 4 * first)
            ends = position + np.cumsum(np.frombuffer(data, "<i4"), dtype=np.int64) * self._dtype.itemsize
            self._file.write(np.concatenate(([position], ends[:-1])).astype("<i8").data)
            position = int(ends[-1])
        for part in (self._documents, self._modes):
            part.seek(0)
            while data := part.read(_BUFFER_BYTES):
                self._file.write(data)
        self._file.seek(0)
        self._file.write(header(dtype_code(self._dtype), num_sequences, num_document_indices))
        self._file.flush()

    def close(self) -> None:
        """Lets the nameless files go; the staged file stays open."""
        self._documents.close()
        self._modes.close()
