"""The bytes of an ``.idx``: what stands where.

Little-endian, no padding (Megatron-core, ``indexed_dataset.py``)::

    9  magic    8  version    1  dtype code    8  sequences S    8  document indices D
    4S sequence lengths, tokens    8S sequence pointers, bytes into .bin    8D document indices    [S modes]

D counts the leading 0, so that a pair of n documents has D = n + 1.
"""

import struct
from dataclasses import dataclass

MAGIC = b"MMIDIDX\x00\x00"
VERSION = 1
HEADER = struct.Struct("<9sQBQQ")
MAX_SEQUENCE_TOKENS = 2**31 - 1


@dataclass(frozen=True, slots=True)
class IndexLayout:
    """Byte positions of the arrays. Plain integers, so that the counts of a hostile header cost nothing."""

    num_sequences: int
    num_document_indices: int
    multimodal: bool

    @property
    def lengths(self) -> int:
        """Where int32[S] begins."""
        return HEADER.size

    @property
    def pointers(self) -> int:
        """Where int64[S] begins."""
        return self.lengths + 4 * self.num_sequences

    @property
    def documents(self) -> int:
        """Where int64[D] begins."""
        return self.pointers + 8 * self.num_sequences

    @property
    def modes(self) -> int:
        """Where int8[S] begins, if there is one."""
        return self.documents + 8 * self.num_document_indices

    @property
    def size(self) -> int:
        """The exact size of the file."""
        return self.modes + (self.num_sequences if self.multimodal else 0)


def header(dtype_code: int, num_sequences: int, num_document_indices: int) -> bytes:
    """The first 34 bytes."""
    return HEADER.pack(MAGIC, VERSION, dtype_code, num_sequences, num_document_indices)
