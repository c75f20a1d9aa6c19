"""A pair while its documents come in, part by part."""

import os
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cached_property
from io import FileIO
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mindformers_megatron.format.index_stream import IndexStream
from mindformers_megatron.format.paths import prefix_of
from mindformers_megatron.format.staging import StagedPair
from mindformers_megatron.format.writer import WrittenPair
from mindformers_megatron.tokenization.pair_sums import PairSums

# Left to itself, the system begins to write late, and all have to wait for it in the end.
_FLUSHED_BYTES = 1 << 26


class GrowingPair:
    """A pair that becomes readable, whole, in ``publish``, and not at all without it.

    Its tokens are written once, into a file in which a later run finds them again should this one not come to its end,
    and which becomes the ``.bin``.

    Args:
        prefix: of the pair. No other process can write it from now on.
        dtype: type of the tokens.
        tokens: the file of the tokens, in the same file system; opened when the first of them come.
        md5: take MD5 too.

    Raises:
        ConfigError: the files cannot be created, or another process is writing this pair.
    """

    def __init__(self, prefix: str, dtype: np.dtype[Any], tokens: Path, *, md5: bool) -> None:
        self.prefix = prefix_of(prefix)
        self.num_tokens = 0
        self._num_documents = self._num_sequences = 0
        self._dtype = dtype
        self._path = tokens
        self._pair = StagedPair(self.prefix)
        try:
            self._index = IndexStream(self._pair.idx, dtype, multimodal=False)
        except BaseException:
            self._pair.discard()
            raise
        self._sums = PairSums(md5=md5)
        self._flusher = ThreadPoolExecutor(1, "mfm-flush")
        self._flush: Future[None] | None = None
        self._unflushed = 0

    def append(
        self,
        tokens: Sequence[NDArray[Any]],
        lengths: NDArray[np.int32],
        sequences: NDArray[np.int32],
        *,
        in_place: bool = False,
    ) -> None:
        """Appends documents.

        Args:
            tokens: arrays of the pair's type, which must not change any more.
            lengths: tokens of each sequence, int32[S], with the sum of all tokens.
            sequences: sequences of each document, int32[D] with sum S.
            in_place: the tokens are mapped from where they would be written.
        """
        for array in tokens:
            if in_place:
                self._file.seek(array.nbytes, os.SEEK_CUR)
            else:
                self._write(array)
                self._unflushed += array.nbytes
            self.num_tokens += array.size
        self._begin_flush()
        self._sums.update(tokens)
        ends = np.cumsum(sequences, dtype=np.int64) + self._num_sequences
        self._index.add_lengths(lengths.astype("<i4").data)
        self._index.add_documents(ends.astype("<i8").data)
        self._num_sequences += lengths.size
        self._num_documents += sequences.size

    def publish(self) -> WrittenPair:
        """Completes both files, forces them to disk and gives them their names."""
        self._index.finish()
        # What an earlier run may have written behind the last of its parts.
        self._file.truncate()
        # Before it leaves its place: this takes longest, and a run that is killed meanwhile is to find it again.
        if self._flush is not None:
            self._flush.result()
        os.fsync(self._file.fileno())
        sums = self._sums.finish(self._pair.idx.file.fileno())
        self._file.close()
        self._pair.bin.take_over(self._path)
        self._pair.publish()
        return WrittenPair(
            num_documents=self._num_documents,
            num_sequences=self._num_sequences,
            num_tokens=self.num_tokens,
            **sums,
        )

    def close(self) -> None:
        """Removes what has not been published, but for the tokens."""
        self._flusher.shutdown()
        self._sums.close()
        self._index.close()
        self._pair.discard()
        if "_file" in self.__dict__:
            self._file.close()

    @cached_property
    def _file(self) -> FileIO:
        return FileIO(os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666), "r+")

    def _begin_flush(self) -> None:
        if self._unflushed < _FLUSHED_BYTES or not (self._flush is None or self._flush.done()):
            return
        if self._flush is not None:
            # The system tells of a failing disk once.
            self._flush.result()
        self._flush = self._flusher.submit(os.fdatasync, self._file.fileno())
        self._unflushed = 0

    def _write(self, tokens: NDArray[Any]) -> None:
        data = tokens.data.cast("B")
        while data:
            data = data[self._file.write(data) :]
