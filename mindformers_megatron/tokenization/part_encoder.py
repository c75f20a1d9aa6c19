"""What a worker does with a part: lines → records → ids → files."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from mindformers_megatron.errors import DataError
from mindformers_megatron.tokenization.documents import Documents, assemble
from mindformers_megatron.tokenization.part_files import PartFiles, PartWriter, Reject
from mindformers_megatron.tokenization.parts import Part, read_lines
from mindformers_megatron.tokenization.records import Record, RecordError, parse_record
from mindformers_megatron.tokenization.tokenizer import TokenizerSpec, open_tokenizer

OTHER_SOURCES = "(others)"
_MOST_SOURCES = 1000
_RAW_CHARACTERS = 200
_MAX_SEQUENCE_TOKENS = 2**31 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class EncodingJob:
    """What is the same for all parts of a run.

    Attributes:
        tokenizer: what encodes.
        json_keys: the keys with the texts, each of which makes a pair.
        eod: token appended to each document, None for none.
        dtype: type of the tokens, as NumPy writes it.
        rejects_allowed: lines that may be no records; None: any number.
        folder: where the files of the parts go.
        batch_bytes: input whose texts are encoded at once.
        max_sequence_tokens: a longer sequence is refused; the index cannot hold it.
    """

    tokenizer: TokenizerSpec
    json_keys: tuple[str, ...]
    eod: int | None
    dtype: str
    rejects_allowed: int | None
    folder: Path
    batch_bytes: int
    max_sequence_tokens: int = _MAX_SEQUENCE_TOKENS


@dataclass(slots=True)
class Counts:
    """What was found in a part, or in many.

    Attributes:
        lines: all of them.
        blanks: lines of white space, which are nothing.
        rejects: lines that are no records.
        documents: records.
        tokens: under all keys together.
        documents_of: documents by source.
        tokens_of: tokens by source, under all keys together.
    """

    lines: int = 0
    blanks: int = 0
    rejects: int = 0
    documents: int = 0
    tokens: int = 0
    documents_of: Counter[str] = field(default_factory=Counter)
    tokens_of: Counter[str] = field(default_factory=Counter)

    def add(self, other: "Counts") -> None:
        """Adds another's counts to these. Sources beyond the first thousand are counted as one."""
        self.lines += other.lines
        self.blanks += other.blanks
        self.rejects += other.rejects
        self.documents += other.documents
        self.tokens += other.tokens
        for source, documents in other.documents_of.items():
            # Where each record names a source of its own, counting them all would take memory without end.
            known = source in self.documents_of or len(self.documents_of) < _MOST_SOURCES
            kept = source if known else OTHER_SOURCES
            self.documents_of[kept] += documents
            self.tokens_of[kept] += other.tokens_of[source]


@dataclass(frozen=True, slots=True)
class EncodedPart:
    """A part whose files are complete.

    Attributes:
        part: the part.
        counts: what was found in it, up to where it was given up.
    """

    part: Part
    counts: Counts


@dataclass(frozen=True, slots=True)
class Advance:
    """What a worker has got done since it said so last.

    Attributes:
        bytes: of input.
        documents: documents.
        tokens: tokens.
    """

    bytes: int
    documents: int
    tokens: int


@dataclass(frozen=True, slots=True)
class _Row:
    line: int
    byte_offset: int
    record: Record


class PartEncoder:
    """Encodes parts; made once in each worker.

    Args:
        job: what is to be done.
        notify: told about each ``Advance``.
    """

    def __init__(self, job: EncodingJob, notify: Callable[[Any], None]) -> None:
        self._job = job
        self._notify = notify
        self._engine = open_tokenizer(job.tokenizer).engine

    def __call__(self, part: Part) -> EncodedPart:
        """Encodes a part. Gives it up after one more line that is no record than may be.

        Raises:
            DataError: the file cannot be read, or a document cannot be encoded.
        """
        counts = Counts()
        reached = part.start
        files = PartFiles(self._job.folder, part.number)
        with PartWriter(files, len(self._job.json_keys), np.dtype(self._job.dtype)) as writer:
            for rows in self._batches(part, counts, writer):
                tokens = self._encode(part, rows, counts, writer)
                here = rows[-1].byte_offset
                self._notify(Advance(here - reached, len(rows), tokens))
                reached = here
        self._notify(Advance(part.stop - reached, 0, 0))
        return EncodedPart(part, counts)

    def _batches(self, part: Part, counts: Counts, writer: PartWriter) -> Iterator[list[_Row]]:
        rows: list[_Row] = []
        size = 0
        for offset, line in read_lines(part):
            counts.lines += 1
            if line.isspace():
                counts.blanks += 1
                continue
            try:
                record = parse_record(line, self._job.json_keys)
            except RecordError as error:
                counts.rejects += 1
                writer.add_reject(Reject(counts.lines, offset, str(error), _begin_of(line)))
                allowed = self._job.rejects_allowed
                if allowed is not None and counts.rejects > allowed:
                    break
                continue
            rows.append(_Row(counts.lines, offset, record))
            size += len(line)
            if size >= self._job.batch_bytes:
                yield rows
                rows, size = [], 0
        if rows:
            yield rows

    def _encode(self, part: Part, rows: Sequence[_Row], counts: Counts, writer: PartWriter) -> int:
        per_document = np.zeros(len(rows), np.int64)
        for key in range(len(self._job.json_keys)):
            texts = [row.record.texts[key] for row in rows]
            flat = list(chain.from_iterable(texts))
            try:
                ids, lengths = self._engine.encode(flat)
            except Exception as error:  # tokenizers raises nothing more precise
                reason = str(error).partition("\n")[0]
                raise DataError(f"{part.path}, {_span(rows)}: the tokenizer failed: {reason}") from None
            documents = assemble(ids, lengths, np.fromiter(map(len, texts), np.int64, len(texts)), self._job.eod)
            self._check_lengths(part, rows, documents)
            writer.add(key, documents)
            per_document += documents.tokens_per_document()
        counts.documents += len(rows)
        counts.tokens += int(per_document.sum())
        for row, tokens in zip(rows, per_document.tolist(), strict=True):
            record = row.record
            source = record.source or part.source
            counts.documents_of[source] += 1
            counts.tokens_of[source] += tokens
            writer.add_doc(record.id, source, str(part.path), row.line, row.byte_offset, record.meta)
        return int(per_document.sum())

    def _check_lengths(self, part: Part, rows: Sequence[_Row], documents: Documents) -> None:
        limit = self._job.max_sequence_tokens
        if documents.lengths.size and (longest := int(documents.lengths.max())) > limit:
            sequence = int(documents.lengths.argmax())
            row = rows[int(np.searchsorted(np.cumsum(documents.sequences), sequence, "right"))]
            raise DataError(
                f"{part.path}, byte {row.byte_offset:,}: a document of {longest:,} tokens; an index holds at most "
                f"{limit:,}, so split it"
            )


def _begin_of(line: bytes) -> str:
    return line[: 4 * _RAW_CHARACTERS].decode(errors="replace").rstrip("\r\n")[:_RAW_CHARACTERS]


def _span(rows: Sequence[_Row]) -> str:
    return f"records at bytes {rows[0].byte_offset:,} to {rows[-1].byte_offset:,}"
