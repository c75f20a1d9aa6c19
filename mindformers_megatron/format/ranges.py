"""Copying documents of pairs into another pair: what joining and splitting have in common."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mindformers_megatron.errors import DataError
from mindformers_megatron.format.copying import append_file
from mindformers_megatron.format.hashing import Hashes, hash_file
from mindformers_megatron.format.index import Index
from mindformers_megatron.format.index_stream import IndexStream
from mindformers_megatron.format.layout import IndexLayout
from mindformers_megatron.format.paths import bin_path, idx_path
from mindformers_megatron.format.staging import StagedPair
from mindformers_megatron.format.writer import WrittenPair

_CHUNK = 1 << 17
_REDO = "the index is damaged: make the pair again"


@dataclass(frozen=True, slots=True)
class DocumentRange:
    """Neighbouring documents of a pair.

    Attributes:
        index: of the pair.
        begin: the first of them.
        end: the first that is no longer one of them.
    """

    index: Index
    begin: int
    end: int

    def sequences(self) -> tuple[int, int]:
        """The first of their sequences, and the first that is no longer one of them.

        Raises:
            DataError: the index says what cannot be.
        """
        first, last = (int(self.index.document_indices[document]) for document in (self.begin, self.end))
        if not 0 <= first <= last <= self.index.num_sequences:
            raise DataError(
                f"{idx_path(self.index.prefix)}: documents {self.begin} to {self.end} are sequences {first} to {last} "
                f"of {self.index.num_sequences}; {_REDO}"
            )
        return first, last


def write_ranges(
    ranges: Iterable[DocumentRange],
    prefix: str,
    dtype: np.dtype[Any],
    *,
    multimodal: bool = False,
    sha256: bool = False,
    md5: bool = False,
    on_bytes: Callable[[int], None] | None = None,
) -> WrittenPair:
    """Writes the documents of the ranges, in order, as one pair, which is what one writer would have written.

    Memory is constant, and where no hash is asked for the tokens are copied by the kernel. What is copied of an index
    is checked value by value.

    Args:
        ranges: of pairs with tokens of this type; taken one by one.
        prefix: of the pair to write.
        dtype: type of the tokens.
        multimodal: the pairs have modes.
        sha256: hash both files while they are written.
        md5: the same with MD5.
        on_bytes: told how many bytes of tokens were copied since it was last told.

    Raises:
        ConfigError: the pair cannot be written.
        DataError: a pair is damaged.
    """
    bin_hashes, idx_hashes = Hashes(sha256=sha256, md5=md5), Hashes(sha256=sha256, md5=md5)
    pair = StagedPair(prefix)
    stream: IndexStream | None = None
    try:
        stream = IndexStream(pair.idx, dtype, multimodal=multimodal)
        documents = sequences = size = 0
        for part in ranges:
            start, stop = _append_index(stream, part, sequences)
            append_file(
                bin_path(part.index.prefix),
                stop - start,
                pair.bin.file.fileno(),
                bin_hashes,
                start=start,
                on_bytes=on_bytes,
            )
            first, last = part.sequences()
            documents += part.end - part.begin
            sequences += last - first
            size += stop - start
        stream.finish()
        hash_file(pair.idx.file.fileno(), idx_hashes)
        pair.publish()
    finally:
        if stream is not None:
            stream.close()
        pair.discard()
    return WrittenPair(
        num_documents=documents,
        num_sequences=sequences,
        num_tokens=size // dtype.itemsize,
        bin_sha256=bin_hashes.sha256,
        idx_sha256=idx_hashes.sha256,
        bin_md5=bin_hashes.md5,
        idx_md5=idx_hashes.md5,
    )


def _append_index(stream: IndexStream, part: DocumentRange, base: int) -> tuple[int, int]:
    """Appends what the index says of a range, behind ``base`` sequences; returns where its bytes begin and end."""
    index = part.index
    path = idx_path(index.prefix)
    layout = IndexLayout(index.num_sequences, index.num_documents + 1, index.sequence_modes is not None)
    first, last = part.sequences()
    start = position = _byte_of(index, first)
    for begin in range(first, last, _CHUNK):
        count = min(_CHUNK, last - begin)
        lengths = _read(path, "<i4", layout.lengths, begin, count)
        pointers = _read(path, "<i8", layout.pointers, begin, count)
        ends = position + np.cumsum(lengths, dtype=np.int64) * index.dtype.itemsize
        wrong = (lengths < 0) | (pointers != np.concatenate(([position], ends[:-1])))
        if wrong.any():
            k = int(wrong.argmax())
            raise DataError(
                f"{path}: sequence {begin + k} is {lengths[k]} tokens at byte {pointers[k]}, not behind the one "
                f"before; {_REDO}"
            )
        position = int(ends[-1])
        stream.add_lengths(lengths.data)
        if layout.multimodal:
            stream.add_modes(_read(path, "i1", layout.modes, begin, count).data)
    # Of a whole pair this was checked when it was opened; of a part, nothing else would show the step to the next one.
    if position != _byte_of(index, last):
        raise DataError(
            f"{path}: sequence {last - 1} ends at byte {position}, but what follows is at byte "
            f"{_byte_of(index, last)}; {_REDO}"
        )
    for begin in range(part.begin, part.end, _CHUNK):
        # One more than are written, so that the step from the chunk before is checked too.
        bounds = _read(path, "<i8", layout.documents, begin, min(_CHUNK, part.end - begin) + 1)
        wrong = bounds[1:] < bounds[:-1]
        if wrong.any():
            k = int(wrong.argmax())
            raise DataError(
                f"{path}: document {begin + k} ends before it begins (sequences {bounds[k]} to {bounds[k + 1]}); "
                f"{_REDO}"
            )
        stream.add_documents((bounds[1:] + (base - first)).data)
    return start, position


def _byte_of(index: Index, sequence: int) -> int:
    """Where a sequence begins in ``.bin``, or where the last one ends."""
    if sequence == index.num_sequences:
        return index.num_tokens * index.dtype.itemsize
    return int(index.sequence_pointers[sequence])


def _read(path: Path, dtype: str, array: int, begin: int, count: int) -> NDArray[Any]:
    """Part of an array of the index, read rather than mapped: mapped pages would count as memory in use."""
    values = np.fromfile(path, dtype, count, offset=array + begin * np.dtype(dtype).itemsize)
    if values.size != count:
        raise DataError(f"{path}: was truncated while being read")
    return values
