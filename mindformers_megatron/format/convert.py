"""From any layout to a pair."""

import os
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mindformers_megatron.errors import ConfigError, DataError
from mindformers_megatron.format.checksums import write_md5
from mindformers_megatron.format.documents import DocumentBatch
from mindformers_megatron.format.dtypes import DTYPE_CODES, dtype_for_vocab
from mindformers_megatron.format.ids import as_tokens
from mindformers_megatron.format.layouts.columns import SUFFIXES, read_table, table_files
from mindformers_megatron.format.layouts.foreign import ForeignPair
from mindformers_megatron.format.layouts.mmididx import NAME as MEGATRON
from mindformers_megatron.format.layouts.recognize import foreign_prefix, open_foreign
from mindformers_megatron.format.merged_metadata import metadata_of
from mindformers_megatron.format.metadata import Metadata, read_metadata, write_metadata
from mindformers_megatron.format.paths import prefix_of
from mindformers_megatron.format.positioned import PositionedFile
from mindformers_megatron.format.provenance import DocsWriter, count_docs, read_docs
from mindformers_megatron.format.writer import IndexedDatasetWriter, WrittenPair

_TOKENS = 1 << 22
_DOCUMENTS = 1 << 17

OnBytes = Callable[[int], None]
# Documents, and where they come from: a pyarrow.RecordBatch, or None.
Batch = tuple[DocumentBatch, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversion:
    """What is asked of a conversion.

    Attributes:
        source: the prefix or a file of a pair in any layout, or a table: a file or a folder.
        prefix: of the pair to write.
        layout: of the source, see ``recognize.READERS``; None: as its index shows.
        column: of a table: where the tokens are.
        read_as: type of the tokens in the source's ``.bin``; None: as its index says.
        dtype: type of the tokens to write; None: that of the source, or by the vocabulary.
        vocab_size: ids must be below it.
    """

    source: Path
    prefix: str
    layout: str | None = None
    column: str = "input_ids"
    read_as: np.dtype[Any] | None = None
    dtype: np.dtype[Any] | None = None
    vocab_size: int | None = None

    @property
    def is_table(self) -> bool:
        """Whether the source has rows instead of a stream of tokens."""
        return self.source.is_dir() or self.source.suffix in SUFFIXES


@dataclass(frozen=True, slots=True)
class ConvertedPair:
    """What a conversion wrote.

    Attributes:
        prefix: of the pair.
        layout: what it was made from.
        dtype: type of the tokens, NumPy's name.
        written: its counts and hashes.
        common_end: the id that all documents with tokens end with; None if they do not end alike.
        largest_id: of all.
        has_metadata: whether it has a ``.metadata.json``.
        has_docs: whether it has a ``.docs.parquet``.
    """

    prefix: str
    layout: str
    dtype: str
    written: WrittenPair
    common_end: int | None
    largest_id: int
    has_metadata: bool
    has_docs: bool


def convert(asked: Conversion, on_bytes: OnBytes = lambda count: None) -> ConvertedPair:
    """Writes a pair of what is there in another layout.

    A pair of Megatron's own is read too, for a ``.bin`` of another type than its index says; its metadata and
    provenance follow. Memory is that of some million tokens or the longest document, and 8 bytes for each document in
    layouts whose index is no array.

    Args:
        asked: what to convert.
        on_bytes: told how many bytes of tokens were read since it was last told.

    Raises:
        ConfigError: the source is asked to be overwritten, or cannot be converted as asked.
        DataError: it is damaged, or an id does not fit.
    """
    prefix = prefix_of(asked.prefix)
    if Path(prefix).resolve() == Path(foreign_prefix(asked.source)).resolve():
        raise ConfigError(f"{prefix}: is what is to be converted; choose another name for the result")
    if asked.is_table:
        layout, metadata = "table", None
        batches = read_table(table_files(asked.source), asked.column)
        dtype = asked.dtype or dtype_for_vocab(asked.vocab_size)
    else:
        foreign = open_foreign(asked.source, asked.layout, asked.read_as)
        layout = foreign.layout
        metadata = _metadata(asked.source, foreign) if layout == MEGATRON else None
        batches = _with_provenance(asked.source, foreign) if layout == MEGATRON else _alone(foreign)
        dtype = asked.dtype or _target_type(foreign, metadata, asked.vocab_size)
    seen = _Seen(prefix, dtype, asked.vocab_size)
    first = next(batches, None)
    has_docs = first is not None and first[1] is not None
    with (
        DocsWriter(prefix) if has_docs else nullcontext() as docs,
        IndexedDatasetWriter(prefix, dtype, md5=True) as writer,
    ):
        for documents, rows in _again(first, batches):
            tokens = seen.checked(documents)
            writer.add_documents(tokens, documents.lengths, documents.sequences)
            if docs is not None and rows is not None:
                docs.add_batch(rows)
            on_bytes(documents.tokens.nbytes)
        if not seen.tokens:
            raise DataError(f"{asked.source}: has no tokens, and there is no such pair; nothing was written")
        written = writer.finalize()
    if metadata is not None:
        same = (written.bin_sha256, written.idx_sha256) == (metadata.bin_sha256, metadata.idx_sha256)
        write_metadata(prefix, metadata if same else metadata_of(written, metadata, dtype=dtype.name))
    write_md5(prefix, written)
    return ConvertedPair(
        prefix=prefix,
        layout=layout,
        dtype=dtype.name,
        written=written,
        common_end=seen.common_end,
        largest_id=seen.largest,
        has_metadata=metadata is not None,
        has_docs=has_docs,
    )


class _Seen:
    """Checks ids on their way, and notes what they are like."""

    def __init__(self, prefix: str, dtype: np.dtype[Any], vocab_size: int | None) -> None:
        self._prefix = prefix
        self._dtype = dtype
        self._vocab_size = vocab_size
        self._ends: set[int] = set()
        self.tokens = 0
        self.largest = -1

    @property
    def common_end(self) -> int | None:
        return next(iter(self._ends)) if len(self._ends) == 1 else None

    def checked(self, documents: DocumentBatch) -> NDArray[Any]:
        """The tokens in the type of the pair.

        Raises:
            DataError: one is no id, or does not fit.
        """
        edges = documents.edges()

        def where(position: int) -> str:
            document = int(np.searchsorted(edges, position, "right")) - 1
            return f"document {documents.first + document:,}, token {position - int(edges[document]):,}"

        tokens = as_tokens(_as_integers(documents.tokens, where), self._dtype, where)
        if not tokens.size:
            return tokens
        smallest, largest = int(tokens.min()), int(tokens.max())
        if smallest < 0 or (self._vocab_size is not None and largest >= self._vocab_size):
            position = int(tokens.argmin()) if smallest < 0 else int(tokens.argmax())
            most = "" if self._vocab_size is None else f" to {self._vocab_size - 1:,}"
            raise DataError(f"{where(position)}: found id {int(tokens[position]):,}, expected 0{most or ' or more'}")
        self.tokens += tokens.size
        self.largest = max(self.largest, largest)
        if len(self._ends) < 2:
            ends = edges[1:][edges[1:] > edges[:-1]] - 1
            self._ends.update(np.unique(tokens[ends])[:2].tolist())
        return tokens


def _as_integers(tokens: NDArray[Any], where: Callable[[int], str]) -> NDArray[Any]:
    if tokens.dtype.kind != "f":
        return tokens.astype(tokens.dtype.newbyteorder("="), copy=False)
    wrong = np.flatnonzero(~(np.abs(tokens) < 2**53) | (tokens != np.floor(tokens)))
    if wrong.size:
        place = int(wrong[0])
        raise DataError(f"{where(place)}: found {tokens[place].item()!r}, which is no id")
    return tokens.astype(np.int64)


def _target_type(foreign: ForeignPair, metadata: Metadata | None, vocab_size: int | None) -> np.dtype[Any]:
    if metadata is not None:
        return np.dtype(metadata.dtype)
    if vocab_size is not None:
        return dtype_for_vocab(vocab_size)
    little = foreign.dtype.newbyteorder("<")
    return little if little.kind in "iu" and little in DTYPE_CODES.values() else DTYPE_CODES[4]


def _metadata(source: Path, foreign: ForeignPair) -> Metadata | None:
    """The metadata of a pair of Megatron's own, if it is that of these documents."""
    metadata = read_metadata(foreign_prefix(source))
    if metadata is None or foreign.sequences is None:
        return None
    counts = (foreign.sequences.size, foreign.lengths.size)
    return metadata if (metadata.documents, metadata.sequences) == counts else None


def _again(first: Batch | None, rest: Iterator[Batch]) -> Iterator[Batch]:
    if first is not None:
        yield first
    yield from rest


def _alone(foreign: ForeignPair) -> Iterator[Batch]:
    return ((documents, None) for documents in foreign_documents(foreign))


def _with_provenance(source: Path, foreign: ForeignPair) -> Iterator[Batch]:
    prefix = foreign_prefix(source)
    if foreign.sequences is None or count_docs(prefix) != foreign.sequences.size:
        return _alone(foreign)
    return with_rows(foreign_documents(foreign), read_docs(prefix))


def with_rows(batches: Iterator[DocumentBatch], rows: Iterator[Any]) -> Iterator[Batch]:
    """Puts documents and the rows that say where they come from side by side.

    Args:
        batches: all documents of a pair, in order.
        rows: ``pyarrow.RecordBatch`` of its provenance, in order, cut elsewhere.
    """
    import pyarrow as pa

    waiting: list[Any] = []
    for documents in batches:
        while sum(part.num_rows for part in waiting) < len(documents):
            waiting.append(next(rows))
        table = pa.Table.from_batches(waiting).combine_chunks()
        (batch,) = table.slice(0, len(documents)).to_batches(max_chunksize=len(documents)) or [waiting[0].slice(0, 0)]
        yield documents, batch
        waiting = table.slice(len(documents)).to_batches()


def foreign_documents(foreign: ForeignPair) -> Iterator[DocumentBatch]:
    """Reads the documents of a pair in any layout, in order.

    Raises:
        DataError: the ``.bin`` became shorter since it was opened.
    """
    file, width = PositionedFile(foreign.bin), foreign.dtype.itemsize
    count = foreign.lengths.size if foreign.sequences is None else foreign.sequences.size
    position = sequence = 0
    for low in range(0, count, _DOCUMENTS):
        high = min(low + _DOCUMENTS, count)
        sequences = np.ones(high - low, np.int64)
        if foreign.sequences is not None:
            sequences = foreign.sequences[low:high].astype(np.int64)
        bounds = np.concatenate(([0], np.cumsum(sequences)))
        lengths = foreign.lengths[sequence : sequence + int(bounds[-1])].astype(np.int64)
        starts = np.concatenate(([0], np.cumsum(lengths)))[bounds]
        place = 0
        while place < high - low:
            fitting = int(np.searchsorted(starts, starts[place] + _TOKENS, "right")) - 1
            after = min(max(fitting, place + 1), high - low)
            size = int(starts[after] - starts[place])
            tokens = file.read(position, size * width).view(foreign.dtype)
            sizes, per_document = lengths[bounds[place] : bounds[after]], sequences[place:after]
            if foreign.sequences is None:
                # A document without tokens has no sequence, as in Megatron's own tool.
                per_document, sizes = (sizes > 0).astype(np.int64), sizes[sizes > 0]
            yield DocumentBatch(
                first=low + place,
                tokens=tokens - foreign.added if foreign.added else tokens,
                lengths=sizes.astype(np.int32),
                sequences=per_document,
                modes=None,
            )
            position += size * width
            place = after
        sequence += int(bounds[-1])


def source_bytes(source: str | os.PathLike[str]) -> int:
    """Bytes of the tokens of a source, for showing how far a conversion has come; 0 if that is not known."""
    path = Path(source)
    if path.is_dir() or path.suffix in SUFFIXES:
        return 0
    tokens = Path(f"{foreign_prefix(source)}.bin")
    return tokens.stat().st_size if tokens.is_file() else 0
