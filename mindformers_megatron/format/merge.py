"""Joining pairs end to end."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mindformers_megatron.errors import ConfigError, DataError
from mindformers_megatron.format.copying import append_file
from mindformers_megatron.format.hashing import Hashes, hash_file
from mindformers_megatron.format.index import Index, read_index
from mindformers_megatron.format.index_stream import IndexStream
from mindformers_megatron.format.layout import IndexLayout
from mindformers_megatron.format.paths import bin_path, idx_path, prefix_of
from mindformers_megatron.format.staging import StagedPair
from mindformers_megatron.format.writer import WrittenPair

_CHUNK = 1 << 17


def join_pairs(
    parts: Sequence[str | os.PathLike[str]],
    prefix: str | os.PathLike[str],
    *,
    multimodal: bool = False,
    sha256: bool = False,
    md5: bool = False,
) -> WrittenPair:
    """Writes the documents of all parts, in order, as one pair; the parts stay.

    The result is what one writer would have written. Memory is constant, and where no hash is asked for the tokens are
    copied by the kernel. The indexes of the parts are checked whole on the way.

    Args:
        parts: prefixes (or ``.bin``, or ``.idx``) of the parts.
        prefix: of the pair to write.
        multimodal: the parts have modes.
        sha256: hash both files while they are written.
        md5: the same with MD5.

    Raises:
        ConfigError: no parts, the result is one of the parts, or it cannot be written.
        DataError: a part is damaged, or has another dtype than the first.
    """
    target = prefix_of(prefix)
    sources = [prefix_of(part) for part in parts]
    if not sources:
        raise ConfigError(f"{target}: no parts to join")
    if Path(target).resolve() in {Path(source).resolve() for source in sources}:
        raise ConfigError(f"{target}: is one of the parts to join; choose another name for the result")
    first = read_index(sources[0], multimodal=multimodal)
    # All of them before anything is copied: the last of a thousand parts may be the wrong one.
    for source in sources[1:]:
        dtype = read_index(source, multimodal=multimodal).dtype
        if dtype != first.dtype:
            raise DataError(
                f"{source}: tokens are {dtype.name}, those of {first.prefix} {first.dtype.name}; they were made for "
                "different vocabularies: make them again with one tokenizer"
            )
    bin_hashes, idx_hashes = Hashes(sha256=sha256, md5=md5), Hashes(sha256=sha256, md5=md5)
    pair = StagedPair(target)
    stream: IndexStream | None = None
    try:
        stream = IndexStream(pair.idx, first.dtype, multimodal=multimodal)
        documents = sequences = tokens = 0
        for source in sources:
            index = read_index(source, multimodal=multimodal)
            _append_index(stream, index, sequences)
            size = index.num_tokens * index.dtype.itemsize
            append_file(bin_path(source), size, pair.bin.file.fileno(), bin_hashes)
            documents += index.num_documents
            sequences += index.num_sequences
            tokens += index.num_tokens
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
        num_tokens=tokens,
        bin_sha256=bin_hashes.sha256,
        idx_sha256=idx_hashes.sha256,
        bin_md5=bin_hashes.md5,
        idx_md5=idx_hashes.md5,
    )


def _append_index(stream: IndexStream, index: Index, base: int) -> None:
    """Appends a part's index; its document ends are moved by ``base`` sequences."""
    path = idx_path(index.prefix)
    layout = IndexLayout(index.num_sequences, index.num_documents + 1, index.sequence_modes is not None)
    position = 0
    for begin in range(0, index.num_sequences, _CHUNK):
        count = min(_CHUNK, index.num_sequences - begin)
        lengths = _read(path, "<i4", layout.lengths, begin, count)
        pointers = _read(path, "<i8", layout.pointers, begin, count)
        ends = position + np.cumsum(lengths, dtype=np.int64) * index.dtype.itemsize
        wrong = (lengths < 0) | (pointers != np.concatenate(([position], ends[:-1])))
        if wrong.any():
            k = int(wrong.argmax())
            raise DataError(
                f"{path}: sequence {begin + k} is {lengths[k]} tokens at byte {pointers[k]}, not behind the one "
                "before; the index is damaged: make the part again"
            )
        position = int(ends[-1])
        stream.add_lengths(lengths.data)
        if layout.multimodal:
            stream.add_modes(_read(path, "i1", layout.modes, begin, count).data)
    for begin in range(0, index.num_documents, _CHUNK):
        # One more than are written, so that the step from the chunk before is checked too.
        bounds = _read(path, "<i8", layout.documents, begin, min(_CHUNK, index.num_documents - begin) + 1)
        wrong = bounds[1:] < bounds[:-1]
        if wrong.any():
            k = int(wrong.argmax())
            raise DataError(
                f"{path}: document {begin + k} ends before it begins (sequences {bounds[k]} to {bounds[k + 1]}); the "
                "index is damaged: make the part again"
            )
        stream.add_documents((bounds[1:] + base).data)


def _read(path: Path, dtype: str, array: int, begin: int, count: int) -> NDArray[Any]:
    """Part of an array of the index, read rather than mapped: mapped pages would count as memory in use."""
    values = np.fromfile(path, dtype, count, offset=array + begin * np.dtype(dtype).itemsize)
    if values.size != count:
        raise DataError(f"{path}: was truncated while being read")
    return values
