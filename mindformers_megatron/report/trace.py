"""From a sample back to its documents, and from a document to its samples."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from mindformers_megatron.errors import ConfigError
from mindformers_megatron.format.index import token_start
from mindformers_megatron.format.paths import docs_path
from mindformers_megatron.format.provenance_rows import DocRows, documents_with_id
from mindformers_megatron.format.reader import IndexedDataset
from mindformers_megatron.format.search import search_sorted
from mindformers_megatron.report.steps import Place, StepMap
from mindformers_megatron.sampling.grouped_plan import GroupedPlan
from mindformers_megatron.sampling.plan import SamplePlan

I64 = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentPart:
    """A document, or the part of one, in a row.

    Attributes:
        document: Its number in the corpus.
        column: The column of its first token in the row.
        length: Tokens of it in the row; the last label counts.
        skipped: Tokens of the document before those.
        total: Tokens of the document.
        origin: What provenance says of it (id, source, file, line, byte_offset, meta); None where there is none.
    """

    document: int
    column: int
    length: int
    skipped: int
    total: int
    origin: dict[str, Any] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TracedSample:
    """A sample and all that it is made from.

    Attributes:
        sample: Its number.
        corpus: The corpus's name.
        path: Its prefix.
        cursor: The how-manieth sample of the corpus (with ``shard_files``: of those its group takes from it).
        epoch: The epoch of the corpus it belongs to, from 0.
        tokens: int32[seq_length + 1], the row.
        columns: The other columns of the plan, by name.
        parts: The documents in it, by column.
    """

    sample: int
    corpus: str
    path: str
    cursor: int
    epoch: int
    tokens: npt.NDArray[np.int32]
    columns: dict[str, npt.NDArray[np.int32]]
    parts: tuple[DocumentPart, ...]


def trace_samples(plan: SamplePlan, samples: I64) -> Iterator[TracedSample]:
    """Traces samples, in the order given.

    Args:
        plan: The plan of the run.
        samples: int64[B], numbers of samples.

    Raises:
        DataError: For a sample of a corpus that the plan no longer lists.
    """
    numbers, cursors = plan.locate(samples)
    rows = plan.read(samples)
    found = []
    for sample, number, cursor in zip(samples.tolist(), numbers.tolist(), cursors.tolist(), strict=True):
        own = plan.group_of(sample) if isinstance(plan, GroupedPlan) else plan
        found.append((own, plan.names[number], list(_parts(own, plan.names[number], cursor))))
    documents: dict[str, tuple[IndexedDataset, set[int]]] = {}
    for own, name, parts in found:
        _, known = documents.setdefault(name, (own.corpora[name].dataset, set()))
        known.update(part.document for part in parts)
    origins = {name: origins_of(dataset, sorted(known)) for name, (dataset, known) in documents.items()}
    for place, (own, name, parts) in enumerate(found):
        columns = {column: values[place] for column, values in rows.items()}
        inputs, labels = columns.pop("input_ids"), columns.pop("labels")
        cursor = int(cursors[place])
        yield TracedSample(
            sample=int(samples[place]),
            corpus=name,
            path=own.corpora[name].dataset.prefix,
            cursor=cursor,
            epoch=int(own.epochs(name, np.array([cursor], dtype=np.int64))[0]),
            tokens=np.append(inputs, labels[-1:]),
            columns=columns,
            parts=tuple(replace(part, origin=origins[name].get(part.document)) for part in parts),
        )


def _parts(plan: SamplePlan, name: str, cursor: int) -> Iterator[DocumentPart]:
    """The documents in a sample, without their origins."""
    dataset = plan.corpora[name].dataset
    pieces = plan.pieces(name, np.array([cursor], dtype=np.int64))
    for column, start, length in zip(
        pieces.column.tolist(), pieces.start.tolist(), pieces.length.tolist(), strict=True
    ):
        for document, begin, end in documents_at(dataset, start, start + length):
            low, high = max(begin, start), min(end, start + length)
            yield DocumentPart(
                document=document,
                column=column + low - start,
                length=high - low,
                skipped=low - begin,
                total=end - begin,
                origin=None,
            )


def document_extent(dataset: IndexedDataset, document: int) -> tuple[int, int]:
    """First token and behind the last one of a document.

    Raises:
        ConfigError: There is no such document.
    """
    if not 0 <= document < dataset.num_documents:
        raise ConfigError(f"{dataset.prefix}: document {document} asked for, it has {dataset.num_documents}")
    return token_start(dataset.index, document), token_start(dataset.index, document + 1)


def documents_at(dataset: IndexedDataset, start: int, stop: int) -> Iterator[tuple[int, int, int]]:
    """The documents that hold a token of [start, stop): (document, first token, behind its last)."""
    index = dataset.index
    position = np.array([start * index.dtype.itemsize], dtype=np.int64)
    sequence = search_sorted(index.sequence_pointers, position, side="right") - 1
    document = int(search_sorted(index.document_indices, sequence, side="right")[0]) - 1
    while document < dataset.num_documents:
        begin, end = document_extent(dataset, document)
        if begin >= stop:
            return
        if end > max(begin, start):
            yield document, begin, end
        document += 1


def origin_of(dataset: IndexedDataset, document: int) -> dict[str, Any] | None:
    """What the provenance of a pair says of a document; None where the pair has none."""
    return origins_of(dataset, [document]).get(document)


def origins_of(dataset: IndexedDataset, documents: Sequence[int]) -> dict[int, dict[str, Any]]:
    """What the provenance of a pair says of documents, ascending, by document; empty where the pair has none."""
    if not docs_path(dataset.prefix).exists():
        return {}
    rows = DocRows(dataset.prefix)
    found: dict[int, dict[str, Any]] = {}
    # Neighbours in a sample are neighbours in the file.
    edges = [0, *(np.flatnonzero(np.diff(documents) > 1) + 1).tolist(), len(documents)]
    for first, behind in pairwise(edges):
        if first < behind:
            begin, end = documents[first], documents[behind - 1] + 1
            found.update(zip(range(begin, end), rows.rows(begin, end), strict=True))
    return found


def find_document(plan: SamplePlan, wanted: str) -> list[tuple[str, int]]:
    """Finds documents by id, or by number.

    Args:
        plan: The plan of the run.
        wanted: An id as provenance has it, or ``corpus:number``.

    Returns:
        (corpus, document) for each match.

    Raises:
        ConfigError: Nothing has that id.
    """
    if isinstance(plan, GroupedPlan):
        plan.open(range(plan.groups))
    corpus, _, number = wanted.rpartition(":")
    if corpus in plan.corpora and number.isdigit():
        return [(corpus, int(number))]
    found = []
    for name, opened in plan.corpora.items():
        found += [(name, document) for document in documents_with_id(opened.dataset.prefix, wanted)]
    if not found:
        raise ConfigError(
            f"document {wanted!r} is in no docs.parquet of {', '.join(plan.corpora)}; give its id, or corpus:number "
            "(wiki:17)"
        )
    return found


def places_of_document(plan: SamplePlan, steps: StepMap, name: str, document: int, until: int) -> list[Place]:
    """Where a document was seen in steps 1 to ``until``, however often: by sample.

    Raises:
        ConfigError: The corpus has no such document.
    """
    begin, end = document_extent(plan.corpora[name].dataset, document)
    if begin == end:
        return []
    samples = plan.samples_holding(name, begin, end, steps.behind(until)).tolist()
    first = steps.stretches[0].sample
    return [steps.place_of(sample) for sample in samples if sample >= first]


def first_seen(plan: SamplePlan, samples: Sequence[TracedSample], before: int) -> list[tuple[str, int]]:
    """The documents of ``samples`` that no sample below ``before`` held: (corpus, document), each once, in order."""
    asked: dict[tuple[str, int], bool] = {}
    for traced in samples:
        dataset = plan.corpora[traced.corpus].dataset
        for part in traced.parts:
            key = (traced.corpus, part.document)
            if key not in asked:
                begin, end = document_extent(dataset, part.document)
                asked[key] = not plan.samples_holding(traced.corpus, begin, end, before).size
    return [key for key, new in asked.items() if new]
