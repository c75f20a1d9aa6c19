"""Writing a pair again without its damaged documents, or with others in their place."""

import os
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mindformers_megatron.errors import ConfigError, DataError
from mindformers_megatron.format.checksums import write_md5
from mindformers_megatron.format.documents import DocumentBatch, read_documents
from mindformers_megatron.format.index import Index, map_index
from mindformers_megatron.format.merged_metadata import metadata_of
from mindformers_megatron.format.metadata import Metadata, read_metadata, write_metadata
from mindformers_megatron.format.paths import docs_path, prefix_of
from mindformers_megatron.format.provenance import DocsWriter, read_docs
from mindformers_megatron.format.verify.findings import Verdict
from mindformers_megatron.format.verify.spans import Spans, complement, size_of
from mindformers_megatron.format.writer import IndexedDatasetWriter, WrittenPair

# Ranges that the metadata of a repaired pair lists.
_LISTED = 100

# The documents of a range anew, in order.
Remake = Callable[[int, int], Iterator[DocumentBatch]]


@dataclass(frozen=True, slots=True)
class RepairedPair:
    """What a repair did.

    Attributes:
        prefix: of the new pair.
        written: its counts and hashes.
        dropped: documents that were left out.
        remade: documents that were made anew.
        restored: whether the new pair has the hashes that the metadata of the old one names, so that it is what the old
            one was before it was damaged; None if there is no such metadata.
        has_metadata: whether it has a ``.metadata.json``.
        has_docs: whether it has a ``.docs.parquet``.
    """

    prefix: str
    written: WrittenPair
    dropped: int
    remade: int
    restored: bool | None
    has_metadata: bool
    has_docs: bool


def repair_pair(
    verdict: Verdict,
    target: str | os.PathLike[str],
    *,
    remake: Remake | None = None,
    multimodal: bool = False,
    on_bytes: Callable[[int], None] | None = None,
) -> RepairedPair:
    """Writes a new pair from the sound documents of a damaged one.

    Metadata and provenance follow, if those of the old pair belong to it. Memory is that of some million tokens, or of
    the longest document.

    Args:
        verdict: from ``verify_pair`` with ``full=True``.
        target: prefix of the new pair.
        remake: makes damaged documents anew; None: they are left out.
        multimodal: the pair has modes.
        on_bytes: told how many bytes of tokens were written since it was last told.

    Raises:
        ConfigError: the new pair would be the old one, would have no tokens, or cannot be written.
        DataError: there is damage that no document explains, or a document cannot be made anew.
    """
    prefix, name = verdict.prefix, prefix_of(target)
    if Path(name).resolve() == Path(prefix).resolve():
        raise ConfigError(f"{name}: a pair is never repaired in place; choose another name")
    if not verdict.located:
        unplaced = next((str(found) for found in verdict.findings if found.document is None), "its damage has no place")
        raise DataError(f"{prefix}: cannot be repaired document by document: {unplaced}")
    index = map_index(prefix, multimodal=multimodal)
    metadata = None if verdict.counts.get("metadata") else read_metadata(prefix)
    has_docs = docs_path(prefix).exists() and not verdict.counts.get("provenance")
    # Provenance is staged before the pair is published, so that what is wrong with it leaves nothing behind.
    with (
        DocsWriter(name) if has_docs else nullcontext() as docs,
        IndexedDatasetWriter(name, index.dtype, multimodal=multimodal, md5=True) as writer,
    ):
        tokens = 0
        for batch in _documents(index, verdict.damaged, remake):
            writer.add_documents(batch.tokens, batch.lengths, batch.sequences, batch.modes)
            tokens += batch.tokens.size
            if on_bytes is not None:
                on_bytes(batch.tokens.nbytes)
        if not tokens:
            raise ConfigError(f"{name}: no document with tokens would be left; there is no such pair: make it again")
        if docs is not None:
            _copy_rows(prefix, docs, verdict.damaged if remake is None else None)
        written = writer.finalize()
    restored = None
    if metadata is not None:
        restored = (written.bin_sha256, written.idx_sha256) == (metadata.bin_sha256, metadata.idx_sha256)
        # A pair that is again what its metadata says keeps it, and so its fingerprint: runs go on with it.
        write_metadata(name, metadata if restored else _described(metadata, written, verdict.damaged, remake is None))
    write_md5(name, written)
    damaged = size_of(verdict.damaged)
    return RepairedPair(
        prefix=name,
        written=written,
        dropped=damaged if remake is None else 0,
        remade=0 if remake is None else damaged,
        restored=restored,
        has_metadata=metadata is not None,
        has_docs=has_docs,
    )


def _documents(index: Index, damaged: Spans, remake: Remake | None) -> Iterator[DocumentBatch]:
    sound = complement(damaged, 0, index.num_documents)
    ranges = sorted([*((b, e, True) for b, e in sound.tolist()), *((b, e, False) for b, e in damaged.tolist())])
    for begin, end, is_sound in ranges:
        if is_sound:
            yield from read_documents(index, begin, end)
        elif remake is not None:
            yield from remake(begin, end)


def _copy_rows(prefix: str, docs: DocsWriter, left_out: Spans | None) -> None:
    import pyarrow as pa

    first = 0
    for batch in read_docs(prefix):
        if left_out is not None:
            kept = complement(left_out, first, first + batch.num_rows) - first
            mask: NDArray[np.bool_] = np.zeros(batch.num_rows, bool)
            for begin, end in kept.tolist():
                mask[begin:end] = True
            first += batch.num_rows
            batch = batch.filter(pa.array(mask))
        docs.add_batch(batch)


def _described(metadata: Metadata, written: WrittenPair, damaged: Spans, dropped: bool) -> Metadata:
    repair: dict[str, Any] = {
        "of": metadata.fingerprint,
        "dropped" if dropped else "remade": size_of(damaged),
        # Which ones, as ranges [begin, end) of the old pair's numbers.
        "documents": damaged[:_LISTED].tolist(),
    }
    return replace(metadata_of(written, metadata), options={**metadata.options, "repair": repair})
