"""Are two pairs the same documents, in the same order, under the same tokenizer; and if not, what differs."""

import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mindformers_megatron.errors import DataError
from mindformers_megatron.format.digests import DigestDocuments
from mindformers_megatron.format.documents import read_documents
from mindformers_megatron.format.index import Index, read_index
from mindformers_megatron.format.metadata import Metadata, read_metadata
from mindformers_megatron.format.paths import bin_path, idx_path
from mindformers_megatron.format.provenance import count_docs
from mindformers_megatron.format.provenance_rows import DocRows
from mindformers_megatron.format.verify.tasks import RunTasks, run_here

_COMPARED_AT_ONCE = 1 << 23
_BYTES_PER_TASK = 1 << 26


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentDifference:
    """The first document in which two pairs differ.

    Attributes:
        document: its number in both.
        token: the first position that differs; None if one pair has no such document.
        left: id that the first pair has there; None if its document has ended, or it has none.
        right: the same of the second.
        left_tokens: length of the document in the first pair; None if it has none.
        right_tokens: the same of the second.
        left_source: where the first pair has it from, as ``file:line``; None if that is not known.
        right_source: the same of the second.
    """

    document: int
    token: int | None
    left: int | None
    right: int | None
    left_tokens: int | None
    right_tokens: int | None
    left_source: str | None
    right_source: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PairDifference:
    """How two pairs compare.

    Attributes:
        left: prefix of the first.
        right: prefix of the second.
        same_bytes: their files have the same content.
        same_tokenizer: by their metadata; None if one has none.
        tokenizers: names, and what of them differs, if they do; else empty.
        same_sequences: their documents are divided into sequences alike; not looked at where documents differ.
        documents: how many each has.
        tokens: how many each has.
        common: documents that are in both, wherever.
        same_order: those that are in each of them once come in the same order.
        differing: places, counted over both, at which the documents are not the same.
        first: the first such place; None if there is none.
    """

    left: str
    right: str
    same_bytes: bool
    same_tokenizer: bool | None
    tokenizers: tuple[str, ...]
    same_sequences: bool
    documents: tuple[int, int]
    tokens: tuple[int, int]
    common: int
    same_order: bool
    differing: int
    first: DocumentDifference | None

    @property
    def same(self) -> bool:
        """The same documents and sequences in the same order, and no other tokenizer as far as that is known."""
        return not self.differing and self.same_sequences and self.same_tokenizer is not False

    def to_json(self) -> dict[str, Any]:
        """JSON values."""
        return {"same": self.same, **asdict(self)}


def compare_pairs(
    left: str | os.PathLike[str], right: str | os.PathLike[str], *, run: RunTasks = run_here
) -> PairDifference:
    """Compares two pairs document by document.

    Pairs whose files are the same are only read. Else 16 bytes of memory are taken for each document.

    Args:
        left: the first pair.
        right: the second.
        run: does the work, for example in several processes.

    Raises:
        DataError: one of them is damaged.
    """
    indexes = read_index(left), read_index(right)
    same_tokenizer, tokenizers = _compare_tokenizers(*indexes)
    same_bytes = _same_content(*indexes)
    common, same_order = indexes[0].num_documents, True
    same_sequences, differing, first = True, 0, None
    if not same_bytes:
        digests = _digests(indexes, run)
        common, same_order = _compare_order(*digests)
        shorter = min(map(len, digests))
        places = np.flatnonzero(digests[0][:shorter] != digests[1][:shorter])
        differing = int(places.size) + abs(len(digests[0]) - len(digests[1]))
        if differing:
            first = _describe(*indexes, int(places[0]) if places.size else shorter)
        else:
            same_sequences = _same_sequences(*indexes)
    return PairDifference(
        left=indexes[0].prefix,
        right=indexes[1].prefix,
        same_bytes=same_bytes,
        same_tokenizer=same_tokenizer,
        tokenizers=tokenizers,
        same_sequences=same_sequences,
        documents=(indexes[0].num_documents, indexes[1].num_documents),
        tokens=(indexes[0].num_tokens, indexes[1].num_tokens),
        common=common,
        same_order=same_order,
        differing=differing,
        first=first,
    )


def bytes_compared(left: str | os.PathLike[str], right: str | os.PathLike[str]) -> int:
    """Bytes of tokens in both pairs, for showing how far a comparison has come."""
    return sum(index.num_tokens * index.dtype.itemsize for index in (read_index(left), read_index(right)))


def _compare_tokenizers(left: Index, right: Index) -> tuple[bool | None, tuple[str, ...]]:
    one, two = read_metadata(left.prefix), read_metadata(right.prefix)
    if one is None or two is None:
        return None, ()
    if one.tokenizer_fingerprint == two.tokenizer_fingerprint:
        return True, ()
    return False, (one.tokenizer.name, two.tokenizer.name, *_differing_fields(one, two))


def _differing_fields(one: Metadata, two: Metadata) -> Iterator[str]:
    for name, mine, theirs in (
        ("kind", one.tokenizer.kind, two.tokenizer.kind),
        ("vocabulary size", one.vocab_size, two.vocab_size),
        ("EOD id", one.eod_id, two.eod_id),
    ):
        if mine != theirs:
            yield f"{name}: {mine} and {theirs}"
    if sorted(one.tokenizer.files.values()) != sorted(two.tokenizer.files.values()):
        yield "content of its files"


def _same_content(left: Index, right: Index) -> bool:
    return all(_same_file(path(left.prefix), path(right.prefix)) for path in (idx_path, bin_path))


def _same_file(left: "os.PathLike[str]", right: "os.PathLike[str]") -> bool:
    if os.stat(left).st_size != os.stat(right).st_size:  # noqa: PTH116 - either kind of path
        return False
    with open(left, "rb", buffering=0) as one, open(right, "rb", buffering=0) as two:  # noqa: PTH123
        while data := one.read(_COMPARED_AT_ONCE):
            if data != two.read(_COMPARED_AT_ONCE):
                return False
    return True


def _digests(indexes: tuple[Index, Index], run: RunTasks) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    tasks, counts = [], []
    for index in indexes:
        documents = index.num_documents
        at_once = max(_BYTES_PER_TASK * documents // max(index.num_tokens * index.dtype.itemsize, 1), 1)
        begins = range(0, documents, at_once)
        tasks += [DigestDocuments(index.prefix, begin, min(begin + at_once, documents)) for begin in begins]
        counts.append(len(begins))
    results = list(run(tasks))
    none = [np.empty(0, np.uint64)]
    return np.concatenate(none + results[: counts[0]]), np.concatenate(none + results[counts[0] :])


def _compare_order(left: NDArray[np.uint64], right: NDArray[np.uint64]) -> tuple[int, bool]:
    """(how many documents are in both, whether those that are there once come in the same order)."""
    (one, mine), (two, theirs) = (np.unique(digests, return_counts=True) for digests in (left, right))
    both, at_left, at_right = np.intersect1d(one, two, assume_unique=True, return_indices=True)
    counts = np.minimum(mine[at_left], theirs[at_right])
    # Which of several copies is missing from the other pair, nobody can say.
    single = both[np.maximum(mine[at_left], theirs[at_right]) == 1]
    same = np.array_equal(left[np.isin(left, single)], right[np.isin(right, single)])
    return int(counts.sum()), bool(same)


def _same_sequences(left: Index, right: Index) -> bool:
    return bool(
        np.array_equal(left.document_indices, right.document_indices)
        and np.array_equal(left.sequence_lengths, right.sequence_lengths)
    )


def _describe(left: Index, right: Index, document: int) -> DocumentDifference:
    one, two = _tokens(left, document), _tokens(right, document)
    token = mine = theirs = None
    if one is not None and two is not None:
        shorter = min(one.size, two.size)
        places = np.flatnonzero(one[:shorter] != two[:shorter])
        token = int(places[0]) if places.size else shorter
        mine = one[token].item() if token < one.size else None
        theirs = two[token].item() if token < two.size else None
    return DocumentDifference(
        document=document,
        token=token,
        left=mine,
        right=theirs,
        left_tokens=None if one is None else one.size,
        right_tokens=None if two is None else two.size,
        left_source=_source(left, document),
        right_source=_source(right, document),
    )


def _tokens(index: Index, document: int) -> NDArray[Any] | None:
    if document >= index.num_documents:
        return None
    return next(read_documents(index, document, document + 1)).tokens


def _source(index: Index, document: int) -> str | None:
    if document >= index.num_documents or count_docs(index.prefix) != index.num_documents:
        return None
    try:
        row = next(DocRows(index.prefix).rows(document, document + 1))
    except DataError:
        return None
    return f"{row['file']}:{row['line']}"
