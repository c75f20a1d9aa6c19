"""What was found of every evaluation item, over all shards."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from mindformers_megatron.corpus.decontaminate.ngram_index import Hits, NgramIndex, unique_pairs
from mindformers_megatron.corpus.decontaminate.spans import Spans
from mindformers_megatron.format.atomic import open_atomically

I64 = npt.NDArray[np.int64]

# Documents named for each item.
_EXAMPLES = 5


@dataclass(frozen=True, slots=True)
class Counts:
    """What a shard, or several together, has of each n-gram and item.

    Attributes:
        ngram_documents: int64[G], documents that have each n-gram.
        item_documents: int64[I], documents that have anything of each item.
        examples: int64[I, 5], the first documents with anything of it; -1 where there are no more.
    """

    ngram_documents: I64
    item_documents: I64
    examples: I64

    def __add__(self, other: "Counts") -> "Counts":
        """Returns the counts of both; their documents must differ."""
        both = np.concatenate((self.examples, other.examples), axis=1).astype(np.uint64)
        # As an unsigned number, what is missing is the largest.
        examples = np.sort(both, axis=1)[:, :_EXAMPLES].astype(np.int64)
        return Counts(
            self.ngram_documents + other.ngram_documents, self.item_documents + other.item_documents, examples
        )


def count_hits(hits: Hits, index: NgramIndex) -> Counts:
    """Returns the counts of whole documents, a shard's for example."""
    ngrams = unique_pairs(hits.documents, hits.ngrams)[1]
    rows, items = index.items_of(hits.ngrams)
    items, documents = unique_pairs(items, hits.documents[rows])
    place = np.arange(items.size) - np.searchsorted(items, items)
    examples = np.full((len(index.items), _EXAMPLES), -1, dtype=np.int64)
    shown = place < _EXAMPLES
    examples[items[shown], place[shown]] = documents[shown]
    return Counts(
        np.bincount(ngrams, minlength=index.num_ngrams), np.bincount(items, minlength=len(index.items)), examples
    )


def without_common(hits: Hits, counts: Counts, common: int | None) -> Hits:
    """Returns the hits of n-grams that at most ``common`` documents have.

    Args:
        hits: of any documents.
        counts: of the whole corpus, with all hits.
        common: the limit; None: all hits.
    """
    return hits if common is None else hits.chosen(counts.ngram_documents[hits.ngrams] <= common)


def contamination_report(counts: Counts, index: NgramIndex) -> list[dict[str, Any]]:
    """Returns what was found, for people and programs.

    Args:
        counts: of the whole corpus.
        index: which n-grams belong to which item.

    Returns:
        For each evaluation set its ``name``, how many ``items`` it has, how many could be ``searched`` (have an n-gram)
        and were ``found`` in part or ``whole``, and ``contaminated``: the items found, those with the largest share of
        their n-grams first, each with ``item``, ``ngrams``, ``ngrams_found``, ``documents`` and ``first_documents``.
    """
    owners = index.items_of(np.flatnonzero(counts.ngram_documents))[1]
    found = np.bincount(owners, minlength=len(index.items))
    sets: dict[str, list[int]] = {}
    for number, item in enumerate(index.items):
        sets.setdefault(item.set_name, []).append(number)
    report = []
    for name, numbers in sets.items():
        contaminated = [number for number in numbers if found[number]]
        contaminated.sort(key=lambda number: (-found[number] / index.item_ngrams[number], number))
        report.append(
            {
                "name": name,
                "items": len(numbers),
                "searched": sum(index.item_ngrams[number] > 0 for number in numbers),
                "found": len(contaminated),
                "whole": sum(found[number] == index.item_ngrams[number] for number in contaminated),
                "contaminated": [
                    {
                        "item": index.items[number].label,
                        "ngrams": int(index.item_ngrams[number]),
                        "ngrams_found": int(found[number]),
                        "documents": int(counts.item_documents[number]),
                        "first_documents": [int(document) for document in counts.examples[number] if document >= 0],
                    }
                    for number in contaminated
                ],
            }
        )
    return report


def write_spans(path: Path, chunks: Iterable[Spans], index: NgramIndex) -> int:
    """Writes where evaluation items stand in training documents to a Parquet file; returns the number of rows.

    Columns: ``document``, ``start``, ``end`` (characters), ``set``, ``item``.

    Args:
        path: of the file, which appears whole or not at all.
        chunks: of ``item_spans``, one in memory at a time.
        index: names the items.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    text, integer = pa.string(), pa.int64()
    names = {"document": integer, "start": integer, "end": integer, "set": text, "item": text}
    schema = pa.schema([pa.field(name, kind, nullable=False) for name, kind in names.items()])
    rows = 0
    with open_atomically(path) as file, pq.ParquetWriter(file, schema, compression="zstd") as writer:
        for spans in chunks:
            items = [index.items[number] for number in spans.items.tolist()]
            columns = [
                pa.array(spans.documents),
                pa.array(spans.starts),
                pa.array(spans.ends),
                pa.array([item.set_name for item in items], text),
                pa.array([item.label for item in items], text),
            ]
            writer.write_table(pa.Table.from_arrays(columns, schema=schema))
            rows += len(spans)
    return rows
