"""What a worker does with a part: records → ids → files."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mindformers_megatron.errors import ConfigError, DataError
from mindformers_megatron.tokenization.batches import Batch, read_batches
from mindformers_megatron.tokenization.counts import Advance, Counts
from mindformers_megatron.tokenization.documents import Documents, assemble
from mindformers_megatron.tokenization.engines import Engine
from mindformers_megatron.tokenization.engines.guard import GuardedEngine, UnguardedEngine
from mindformers_megatron.tokenization.part_docs import docs_of, sources_of
from mindformers_megatron.tokenization.part_files import PartFiles, PartWriter, Reject
from mindformers_megatron.tokenization.part_markers import EncodedPart, without_data
from mindformers_megatron.tokenization.parts import Part, Piece
from mindformers_megatron.tokenization.sentences import SentenceSpec, sentence_splitter
from mindformers_megatron.tokenization.tokenizer import Tokenizer, TokenizerSpec

_MAX_SEQUENCE_TOKENS = 2**31 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class EncodingJob:
    """What is the same for all parts of a run.

    Attributes:
        tokenizer: what defines the ids.
        json_keys: the keys with the texts, each of which makes a pair.
        eod: token appended to each document, None for none.
        sentences: how texts are cut into sentences, None: not at all.
        dtype: type of the tokens, as NumPy writes it.
        rejects_allowed: lines that may be no records; None: any number.
        folder: where the files of the parts go.
        batch_bytes: input whose texts are encoded at once.
        max_sequence_tokens: a longer sequence is refused; the index cannot hold it.
    """

    tokenizer: TokenizerSpec
    json_keys: tuple[str, ...]
    eod: int | None
    sentences: SentenceSpec | None
    dtype: str
    rejects_allowed: int | None
    folder: Path
    batch_bytes: int
    max_sequence_tokens: int = _MAX_SEQUENCE_TOKENS


class PartEncoder:
    """Encodes parts; several threads may call one at once.

    Args:
        job: what is to be done.
        notify: told about each ``Advance``.
        tokenizer: what defines the ids.
        engine: what encodes.
    """

    def __init__(
        self, job: EncodingJob, notify: Callable[[Any], None], *, tokenizer: Tokenizer, engine: Engine
    ) -> None:
        self._job = job
        self._notify = notify
        self._tokenizer = tokenizer
        self._engine = engine if isinstance(engine, GuardedEngine) else UnguardedEngine(engine)
        self._split = None if job.sentences is None else sentence_splitter(job.sentences)
        self._dtype = np.dtype(job.dtype)

    def __call__(self, task: tuple[Part, str]) -> EncodedPart:
        """Encodes a part. Gives it up after one bad line more than may be.

        Args:
            task: the part, and the fingerprint it is to be marked with.

        Raises:
            DataError: the file cannot be read, or a document cannot be encoded.
        """
        part, fingerprint = task
        counts = Counts()
        files = PartFiles(self._job.folder, part.number)
        first_documents = last_lines = 0
        given_up = False
        with PartWriter(files, len(self._job.json_keys), self._dtype) as writer:
            try:
                for place, piece in enumerate(part.pieces):
                    lines_before = counts.lines
                    given_up = self._encode_piece(place, piece, counts, writer)
                    first_documents = first_documents if place else counts.documents
                    last_lines = counts.lines - lines_before
                    if given_up:
                        break
            finally:
                # Of two errors the one that comes first in the part is told.
                with _failures_at(lambda: str(part)):
                    self._engine.settle()
        tokens = tuple(map(tuple, writer.tokens))
        return EncodedPart(without_data(part), fingerprint, tokens, counts, first_documents, last_lines, given_up)

    def _encode_piece(self, place: int, piece: Piece, counts: Counts, writer: PartWriter) -> bool:
        allowed = self._job.rejects_allowed
        told, share = 0, 0.0
        for batch in read_batches(piece, self._job.json_keys, self._job.batch_bytes):
            counts.lines += batch.num_lines
            counts.blanks += batch.blanks
            documents, tokens, rejects = self._encode(piece, batch, counts, writer)
            for reject in rejects:
                counts.rejects += 1
                writer.add_reject(place, reject)
            share += batch.share
            reached = min(int(piece.disk_bytes * share), piece.disk_bytes)
            self._notify(Advance(reached - told, documents, tokens))
            told = reached
            if allowed is not None and counts.rejects > allowed:
                return True
        self._notify(Advance(piece.disk_bytes - told, 0, 0))
        return False

    def _encode(
        self, piece: Piece, batch: Batch, counts: Counts, writer: PartWriter
    ) -> tuple[int, int, Sequence[Reject]]:
        """Encodes and writes a batch; returns its documents, their tokens, and the lines that are no records."""
        encoded, special = self._encode_texts(piece, batch)
        if self._job.tokenizer.special_tokens_in_text == "error" and special.any():
            batch = self._refuse(batch, special, encoded)
            encoded, special = self._encode_texts(piece, batch)
        if len(batch):
            per_document = np.zeros(len(batch), np.int64)
            for key, documents in enumerate(encoded):
                self._check_lengths(piece, batch, documents)
                writer.add(key, documents)
                per_document += documents.tokens_per_document()
            counts.documents += len(batch)
            counts.tokens += (tokens := int(per_document.sum()))
            counts.special_tokens += int(special.sum())
            sources = sources_of(piece, batch)
            _count_sources(sources, piece.source, per_document, counts)
            writer.add_docs(docs_of(piece, batch, sources))
        else:
            tokens = 0
        audited, referred = self._engine.take_counts()
        counts.audited += audited
        counts.referred += referred
        return len(batch), tokens, batch.rejects

    def _encode_texts(self, piece: Piece, batch: Batch) -> tuple[list[Documents], NDArray[np.int64]]:
        """(documents for each key, special tokens that stood in each record by name)."""
        special = np.zeros(len(batch), np.int64)
        encoded = []
        for texts in batch.texts:
            flat, per_document = texts.flat, texts.counts
            if self._split is not None:
                split = [self._split(text) for text in flat]
                flat = list(chain.from_iterable(split))
                per_text = np.fromiter(map(len, split), np.int64, len(split))
                ends = np.concatenate(([0], np.cumsum(per_text)))[np.cumsum(per_document)]
                per_document = np.diff(ends, prepend=0)
            with _failures_at(lambda: f"{piece.path}, {_span(batch)}"):
                ids, lengths = self._engine.encode_ahead(flat)
            special += self._special_tokens(ids, lengths, per_document)
            encoded.append(assemble(ids, lengths, per_document, self._job.eod))
        return encoded, special

    @cached_property
    def _special_ids(self) -> tuple[int, NDArray[np.bool_], int]:
        """(smallest special id, which ids from there on are special, how many the tokenizer adds to each text)."""
        tokenizer = self._tokenizer
        if tokenizer.splits_special_tokens or not tokenizer.special_tokens:
            return 0, np.zeros(0, bool), 0
        smallest = min(tokenizer.special_tokens)
        table = np.zeros(max(tokenizer.special_tokens) - smallest + 2, bool)
        table[np.fromiter(tokenizer.special_tokens, np.int64) - smallest] = True
        around = np.concatenate(tokenizer.added_around()) - smallest
        return smallest, table, int(table[around[(around >= 0) & (around < table.size)]].sum())

    def _special_tokens(
        self, ids: NDArray[np.int32], lengths: NDArray[np.int64], per_document: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        smallest, table, added = self._special_ids
        none = np.zeros(per_document.size, np.int64)
        if not table.size:
            return none
        if not ids.size or int(ids.max()) < smallest:
            return none
        # The last place of the table stands for all ids beyond; most vocabularies have theirs at one end.
        candidates = np.flatnonzero((ids >= smallest) & (ids < smallest + table.size))
        found = candidates[table[ids[candidates] - smallest]]
        if found.size == added * np.count_nonzero(lengths):
            return none
        text = np.searchsorted(np.cumsum(lengths), found, "right")
        of_texts = np.bincount(text, minlength=lengths.size) - np.where(lengths > 0, added, 0)
        document = np.repeat(np.arange(per_document.size), per_document)
        totals = np.bincount(document, of_texts, minlength=per_document.size)
        return totals.astype(np.int64)

    def _refuse(self, batch: Batch, special: NDArray[np.int64], encoded: list[Documents]) -> Batch:
        rejects = []
        names = set(self._tokenizer.special_tokens.values())
        starts = [np.concatenate(([0], np.cumsum(texts.counts))) for texts in batch.texts]
        for place in np.flatnonzero(special):
            texts = [
                text
                for of_key, start in zip(batch.texts, starts, strict=True)
                for text in of_key.flat[start[place] : start[place + 1]]
            ]
            found = next((name for name in sorted(names) if any(name in text for text in texts)), "one")
            reason = f"its text has the special token {found!r} in it"
            line, offset = int(batch.lines[place]), int(batch.byte_offsets[place])
            rejects.append(Reject(line, offset, reason, "".join(texts)[:200]))
        return batch.without(special > 0, rejects)

    def _check_lengths(self, piece: Piece, batch: Batch, documents: Documents) -> None:
        limit = self._job.max_sequence_tokens
        if documents.lengths.size and (longest := int(documents.lengths.max())) > limit:
            sequence = int(documents.lengths.argmax())
            document = int(np.searchsorted(np.cumsum(documents.sequences), sequence, "right"))
            raise DataError(
                f"{piece.path}, byte {batch.byte_offsets[document]:,}: a document of {longest:,} tokens; an index "
                f"holds at most {limit:,}, so split it"
            )


def _count_sources(sources: list[str] | None, source_of_all: str, tokens: NDArray[np.int64], counts: Counts) -> None:
    if sources is None:
        counts.documents_of[source_of_all] += tokens.size
        counts.tokens_of[source_of_all] += int(tokens.sum())
        return
    documents_of = Counter(sources)
    places = {source: place for place, source in enumerate(documents_of)}
    which = np.fromiter((places[source] for source in sources), np.int64, len(sources))
    tokens_of = np.bincount(which, tokens, minlength=len(places))
    counts.documents_of += documents_of
    for source, place in places.items():
        counts.tokens_of[source] += int(tokens_of[place])


@contextmanager
def _failures_at(place: Callable[[], str]) -> Iterator[None]:
    try:
        yield
    except (DataError, ConfigError):
        raise
    except Exception as error:  # tokenizers raises nothing more precise
        reason = str(error).partition("\n")[0]
        raise DataError(f"{place()}: the tokenizer failed: {reason}") from None


def _span(batch: Batch) -> str:
    return f"records at bytes {batch.byte_offsets[0]:,} to {batch.byte_offsets[-1]:,}"
