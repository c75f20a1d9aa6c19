"""Making documents of a pair anew from the raw text that its provenance names."""

import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mindformers_megatron.errors import ConfigError, DataError
from mindformers_megatron.format.documents import DocumentBatch, read_documents
from mindformers_megatron.format.ids import as_tokens
from mindformers_megatron.format.index import Index, map_index
from mindformers_megatron.format.metadata import Metadata, read_metadata
from mindformers_megatron.format.paths import docs_path, metadata_path, prefix_of
from mindformers_megatron.format.provenance_rows import DocRows
from mindformers_megatron.format.verify.findings import SHOWN, Finding, Verdict
from mindformers_megatron.format.verify.origins import with_origins
from mindformers_megatron.format.verify.spans import complement, size_of, spans_of, union
from mindformers_megatron.tokenization.documents import assemble
from mindformers_megatron.tokenization.raw_records import RawRecords
from mindformers_megatron.tokenization.same_tokenizer import require_same
from mindformers_megatron.tokenization.sentences import SentenceSpec, sentence_splitter
from mindformers_megatron.tokenization.tokenizer import TokenizerSpec, open_tokenizer

_CHARACTERS = 1 << 18
_DOCUMENTS = 1 << 10
_KNOWN_OPTIONS = {
    "json_key",
    "append_eod",
    "add_special_tokens",
    "special_tokens_in_text",
    "sentences",
    "language",
    "keep_newlines",
    "repair",
}


class Retokenizer:
    """Makes documents of a pair anew, to the ids that they had.

    Args:
        prefix: of the pair.
        tokenizer: folder or file of the tokenizer that made it.
        folder: where paths in its provenance begin that are not absolute.
        on_bytes: told how many bytes of raw files were hashed or read since it was last told.

    Raises:
        ConfigError: the pair says not enough about how it was made, or was made with another tokenizer.
        DataError: its metadata or the tokenizer is damaged.
    """

    def __init__(
        self,
        prefix: str | os.PathLike[str],
        tokenizer: Path,
        folder: Path = Path(),
        on_bytes: Callable[[int], None] = lambda count: None,
    ) -> None:
        self._prefix = prefix_of(prefix)
        metadata = _metadata_of(self._prefix)
        options = metadata.options
        self._dtype: np.dtype[Any] = np.dtype(metadata.dtype)
        self._eod = metadata.eod_id if options["append_eod"] else None
        spec = TokenizerSpec(
            path=tokenizer,
            add_special_tokens=bool(options["add_special_tokens"]),
            special_tokens_in_text="split" if options.get("special_tokens_in_text") == "split" else "encode",
            eod_id=metadata.eod_id,
        )
        opened = open_tokenizer(spec)
        require_same(opened, tokenizer, self._prefix, metadata)
        self._engine = opened.engine
        self._split = None
        if "sentences" in options:
            self._split = sentence_splitter(
                SentenceSpec(language=str(options["language"]), keep_newlines=bool(options["keep_newlines"]))
            )
        self._rows = DocRows(self._prefix)
        self._records = RawRecords(metadata.sources, folder, str(options["json_key"]), on_bytes)

    def remake(self, begin: int, end: int) -> Iterator[DocumentBatch]:
        """Documents ``[begin, end)``, in order.

        Raises:
            DataError: a raw file is missing, or is no longer what it was.
        """
        document, texts, characters = begin, list[list[str]](), 0
        for row in self._rows.rows(begin, end):
            found = self._records.read(row).texts[0]
            if self._split is not None:
                found = [sentence for text in found for sentence in self._split(text)]
            texts.append(found)
            characters += sum(map(len, found))
            if characters >= _CHARACTERS or len(texts) == _DOCUMENTS:
                yield self._encode(document, texts)
                document, texts, characters = document + len(texts), [], 0
        if texts:
            yield self._encode(document, texts)

    def _encode(self, first: int, texts: list[list[str]]) -> DocumentBatch:
        flat = list(chain.from_iterable(texts))
        try:
            ids, lengths = self._engine.encode(flat)
        except Exception as error:  # tokenizers raises nothing more precise
            reason = str(error).partition("\n")[0]
            raise DataError(f"{self._prefix}, document {first:,} and on: the tokenizer failed: {reason}") from None
        made = assemble(ids, lengths, np.fromiter(map(len, texts), np.int64, len(texts)), self._eod)
        return DocumentBatch(
            first=first,
            tokens=as_tokens(made.ids, self._dtype, lambda position: f"{self._prefix}, document {first:,} and on"),
            lengths=made.lengths.astype(np.int32),
            sequences=made.sequences,
            modes=None,
        )


def raw_bytes(prefix: str | os.PathLike[str]) -> int:
    """Bytes of the raw files that a pair was made from; 0 if that is not known."""
    try:
        metadata = read_metadata(prefix)
    except DataError:
        return 0
    return 0 if metadata is None else sum(source.size for source in metadata.sources)


def compare_with_sources(verdict: Verdict, retokenizer: Retokenizer) -> Verdict:
    """Makes every document of a pair anew and compares it with what is there, which nothing escapes.

    Args:
        verdict: from ``verify_pair`` with ``full=True``; documents that it calls damaged are left out.
        retokenizer: makes documents of this pair.

    Returns:
        The verdict, with the documents that differ.

    Raises:
        DataError: the pair's documents have no certain place, or a raw file is no longer what it was.
    """
    if not verdict.readable or verdict.documents is None:
        raise DataError(f"{verdict.prefix}: too damaged to be compared with its raw text: {verdict.findings[0]}")
    index = map_index(verdict.prefix)
    differing, findings = [], list[Finding]()
    for begin, end in complement(verdict.damaged, 0, index.num_documents).tolist():
        for made in retokenizer.remake(begin, end):
            stop = made.first + len(made)
            whole = list(read_documents(index, made.first, stop, batch_tokens=2**62))
            found = _differences(whole[0], made)
            differing.append(found + made.first)
            for place in found[: SHOWN - len(findings)].tolist():
                findings.append(_describe(index, whole[0], made, place))
    documents = spans_of(np.concatenate([np.empty(0, np.int64), *differing]))
    counts = dict(verdict.counts)
    if len(documents):
        counts["source"] = size_of(documents)
    return replace(
        verdict,
        findings=(*verdict.findings, *with_origins(verdict.prefix, findings)),
        counts=counts,
        damaged=union([verdict.damaged, documents]),
        located=True,
    )


def _metadata_of(prefix: str) -> Metadata:
    metadata = read_metadata(prefix)
    if metadata is None:
        raise ConfigError(f"{metadata_path(prefix)}: not found; without it nobody knows how {prefix} was tokenized")
    if not docs_path(prefix).exists():
        raise ConfigError(f"{docs_path(prefix)}: not found; without it nobody knows what {prefix} was made from")
    options = metadata.options
    unknown = sorted(set(options) - _KNOWN_OPTIONS)
    missing = sorted({"json_key", "append_eod", "add_special_tokens"} - set(options))
    if unknown or missing or options.get("sentences", "built-in") != "built-in":
        what = f"options {unknown}" if unknown else f"no option {missing}" if missing else "sentences cut by punkt"
        raise ConfigError(
            f"{metadata_path(prefix)}: has {what}, so its documents cannot be made anew one by one; run the "
            "tokenization again"
        )
    return metadata


def _differences(found: DocumentBatch, made: DocumentBatch) -> NDArray[np.int64]:
    """Which documents of two batches differ."""
    if all(np.array_equal(getattr(found, name), getattr(made, name)) for name in ("tokens", "lengths", "sequences")):
        return np.empty(0, np.int64)
    ours, theirs = _Parts(found), _Parts(made)
    return np.array([place for place in range(len(made)) if not ours.equal(theirs, place)], np.int64)


class _Parts:
    """The documents of a batch one by one."""

    def __init__(self, batch: DocumentBatch) -> None:
        self._batch = batch
        self._edges = batch.edges()
        self._bounds = np.concatenate(([0], np.cumsum(batch.sequences)))

    def tokens(self, place: int) -> NDArray[Any]:
        return self._batch.tokens[self._edges[place] : self._edges[place + 1]]

    def lengths(self, place: int) -> NDArray[np.int32]:
        return self._batch.lengths[self._bounds[place] : self._bounds[place + 1]]

    def equal(self, other: "_Parts", place: int) -> bool:
        return np.array_equal(self.lengths(place), other.lengths(place)) and np.array_equal(
            self.tokens(place), other.tokens(place)
        )


def _describe(index: Index, found: DocumentBatch, made: DocumentBatch, place: int) -> Finding:
    parts = _Parts(found)
    ours, theirs = parts.tokens(place), _Parts(made).tokens(place)
    shorter = min(ours.size, theirs.size)
    differing = np.flatnonzero(ours[:shorter] != theirs[:shorter])
    document = found.first + place
    if differing.size:
        token = int(differing[0])
        message = f"found id {ours[token]:,}, but its text gives {theirs[token]:,} ({differing.size:,} ids differ)"
        first = int(index.document_indices[document])
        return Finding(
            kind="source",
            message=message,
            document=document,
            last_document=document,
            sequence=first + int(np.searchsorted(np.cumsum(parts.lengths(place)), token, "right")),
            token=token,
            byte=int(index.sequence_pointers[first]) + token * index.dtype.itemsize,
        )
    message = f"has {ours.size:,} tokens, but its text gives {theirs.size:,}"
    if ours.size == theirs.size:
        message = "is not divided into sequences as its text is"
    return Finding(kind="source", message=message, document=document, last_document=document)
