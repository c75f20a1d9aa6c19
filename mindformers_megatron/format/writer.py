"""Writing a pair, byte for byte as Megatron does."""

import os
import struct
from dataclasses import dataclass
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mindformers_megatron.errors import DataError
from mindformers_megatron.format.dtypes import DTYPE_CODES, dtype_code
from mindformers_megatron.format.hashing import Hashes, hash_file
from mindformers_megatron.format.ids import IntArray, as_counts, as_tokens
from mindformers_megatron.format.index_stream import IndexStream
from mindformers_megatron.format.layout import MAX_SEQUENCE_TOKENS
from mindformers_megatron.format.paths import prefix_of
from mindformers_megatron.format.staging import StagedPair

_INT32 = struct.Struct("<i")
_INT64 = struct.Struct("<q")


@dataclass(frozen=True, slots=True)
class WrittenPair:
    """What was written.

    Attributes:
        num_documents: empty ones included.
        num_sequences: entries of the index.
        num_tokens: tokens in ``.bin``.
        bin_sha256: hex digest; this and the following are None where not asked for.
        idx_sha256: hex digest.
        bin_md5: hex digest.
        idx_md5: hex digest.
    """

    num_documents: int
    num_sequences: int
    num_tokens: int
    bin_sha256: str | None
    idx_sha256: str | None
    bin_md5: str | None
    idx_md5: str | None


class IndexedDatasetWriter:
    """Writes a pair as a stream, in memory that does not grow with it.

    The pair becomes readable in ``finalize``, whole, or not at all: until then everything is in ``<prefix>.bin.tmp``
    and ``<prefix>.idx.tmp``, and an older pair of that name stays as it is. As a context manager it finalizes at the
    end of the block, and aborts if the block ends in an exception.

    Args:
        prefix: the prefix, the ``.bin`` or the ``.idx`` to write.
        dtype: type of the tokens, see ``dtype_for_vocab``.
        multimodal: write one mode per sequence.
        sha256: hash both files while they are written.
        md5: the same with MD5.

    Raises:
        ConfigError: the dtype has no code, the files cannot be created, or another process is writing this pair.
    """

    def __init__(
        self,
        prefix: str | os.PathLike[str],
        dtype: object,
        *,
        multimodal: bool = False,
        sha256: bool = True,
        md5: bool = False,
    ) -> None:
        self.prefix = prefix_of(prefix)
        self.dtype: np.dtype[Any] = DTYPE_CODES[dtype_code(dtype)]
        self._multimodal = multimodal
        self._num_documents = self._num_sequences = self._num_tokens = 0
        self._written: WrittenPair | None = None
        self._closed = False
        self._bin_hashes = Hashes(sha256=sha256, md5=md5)
        self._idx_hashes = Hashes(sha256=sha256, md5=md5)
        self._pair = StagedPair(self.prefix)
        try:
            self._index = IndexStream(self._pair.idx, self.dtype, multimodal=multimodal)
        except BaseException:
            self._pair.discard()
            raise

    def add_document(self, ids: IntArray, lengths: IntArray | None = None, modes: IntArray | None = None) -> None:
        """Appends one document.

        Args:
            ids: its tokens, int[N].
            lengths: int[K] with sum N, the tokens of each of its sequences (sentences); a 0 is a sequence without
                tokens. None: the whole document is one sequence, and a document without tokens has no sequence at all,
                as in Megatron's own tool.
            modes: int8[K] of a multimodal pair; None: all 0.

        Raises:
            DataError: an id does not fit the dtype, the lengths do not add up, or a sequence has 2^31 tokens or more.
                Nothing of the document has been written then.
        """
        if lengths is not None or modes is not None or self._multimodal or len(ids) > MAX_SEQUENCE_TOKENS:
            if lengths is None:
                lengths = [len(ids)] if len(ids) else []
            self.add_documents(ids, lengths, [len(lengths)], modes)
            return
        # The way of nearly every document: no arrays but the tokens.
        self._check_open()
        document = self._num_documents
        tokens = as_tokens(ids, self.dtype, lambda position: f"{self.prefix}: document {document}, token {position}")
        if tokens.size:
            self._write_tokens(tokens)
            self._index.add_lengths(_INT32.pack(tokens.size))
            self._num_sequences += 1
        self._index.add_documents(_INT64.pack(self._num_sequences))
        self._num_documents += 1

    def add_documents(
        self,
        ids: IntArray,
        lengths: IntArray,
        sequences: IntArray | None = None,
        modes: IntArray | None = None,
    ) -> None:
        """Appends many documents at once.

        Args:
            ids: the tokens of all of them, int[N].
            lengths: int[K] with sum N, the tokens of each document, or of each sequence if ``sequences`` is given.
            sequences: int[D] with sum K, how many sequences each document has; zeros in ``lengths`` are sequences then.
                None: one for every document, and none for a document of length 0.
            modes: int8, one per sequence that is written, of a multimodal pair; None: all 0.

        Raises:
            DataError: as in ``add_document``. Nothing of these documents has been written then.
        """
        self._check_open()
        first = self._num_documents
        unit = "document" if sequences is None else f"from document {first} on, sequence"
        base = first if sequences is None else 0
        sizes = as_counts(lengths, len(ids), "tokens", lambda k: f"{self.prefix}: {unit} {base + k}")
        if sequences is None:
            per_document = (sizes > 0).astype(np.int32)
            document_sizes = sizes
            sizes = sizes[sizes > 0]
        else:
            per_document = as_counts(
                sequences, sizes.size, "sequences", lambda d: f"{self.prefix}: document {first + d}"
            )
            document_sizes = None
        ends = np.cumsum(per_document, dtype=np.int64)
        mode_values = self._as_modes(modes, sizes.size)

        def where(position: int) -> str:
            if document_sizes is not None:
                document = int(np.searchsorted(np.cumsum(document_sizes, dtype=np.int64), position, "right"))
            else:
                sequence = int(np.searchsorted(np.cumsum(sizes, dtype=np.int64), position, "right"))
                document = int(np.searchsorted(ends, sequence, "right"))
            return f"{self.prefix}: document {first + document}, token {position} of this call"

        tokens = as_tokens(ids, self.dtype, where)
        self._write_tokens(tokens)
        self._index.add_lengths(sizes.data)
        self._index.add_documents((ends + self._num_sequences).astype("<i8").data)
        if mode_values is not None:
            self._index.add_modes(mode_values.data)
        self._num_sequences += sizes.size
        self._num_documents += ends.size

    def finalize(self) -> WrittenPair:
        """Completes both files, forces them to disk and gives them their names; called again, it returns the same."""
        if self._written is not None:
            return self._written
        self._check_open()
        try:
            self._index.finish()
            hash_file(self._pair.idx.file.fileno(), self._idx_hashes)
            self._pair.publish()
        except BaseException:
            self.abort()
            raise
        self._closed = True
        self._index.close()
        self._written = WrittenPair(
            num_documents=self._num_documents,
            num_sequences=self._num_sequences,
            num_tokens=self._num_tokens,
            bin_sha256=self._bin_hashes.sha256,
            idx_sha256=self._idx_hashes.sha256,
            bin_md5=self._bin_hashes.md5,
            idx_md5=self._idx_hashes.md5,
        )
        return self._written

    def abort(self) -> None:
        """Removes what was written; does nothing after ``finalize``."""
        self._closed = True
        self._index.close()
        self._pair.discard()

    def __enter__(self) -> "IndexedDatasetWriter":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if kind is not None:
            self.abort()
        elif not self._closed:
            self.finalize()

    def _write_tokens(self, tokens: NDArray[Any]) -> None:
        if tokens.size:
            self._pair.bin.file.write(tokens.data)
            self._bin_hashes.update(tokens.data)
            self._num_tokens += tokens.size

    def _as_modes(self, modes: IntArray | None, count: int) -> NDArray[np.int8] | None:
        if not self._multimodal:
            if modes is not None:
                raise DataError(f"{self.prefix}: modes given for a pair that has none; open it with multimodal=True")
            return None
        if modes is None:
            return np.zeros(count, np.int8)
        values = as_tokens(
            modes, np.dtype(np.int8), lambda k: f"{self.prefix}: from document {self._num_documents} on, mode {k}"
        )
        if values.size != count:
            raise DataError(f"{self.prefix}: {values.size} modes for {count} sequences, expected one each")
        return values

    def _check_open(self) -> None:
        if self._closed:
            raise ValueError(f"{self.prefix}: the writer is closed")
