"""Stretches of text covered by n-grams that overlap or touch."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mindformers_megatron.corpus.decontaminate.ngram_index import Hits, NgramIndex

I64 = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Spans:
    """Stretches of documents, apart from each other within a group.

    Attributes:
        documents: int64[S], ascending.
        items: int64[S], whose text it is; -1 where items are not told apart.
        starts: int64[S], in characters of the document; ascending within a document and item.
        ends: int64[S], exclusive.
    """

    documents: I64
    items: I64
    starts: I64
    ends: I64

    def __len__(self) -> int:
        """Returns the number of spans."""
        return self.documents.size


def document_spans(hits: Hits, *, margin: int = 0) -> Spans:
    """Returns what evaluation items cover of each document.

    Args:
        hits: all of the documents.
        margin: characters on both sides that are covered too; a span may then end beyond the text.
    """
    everything = np.full(len(hits), -1, dtype=np.int64)
    return _join(hits.documents, everything, np.maximum(hits.starts - margin, 0), hits.ends + margin)


def item_spans(hits: Hits, index: NgramIndex) -> Spans:
    """Returns what each evaluation item covers of each document."""
    rows, items = index.items_of(hits.ngrams)
    return _join(hits.documents[rows], items, hits.starts[rows], hits.ends[rows])


def _join(documents: I64, items: I64, starts: I64, ends: I64) -> Spans:
    order = np.lexsort((starts, items, documents))
    documents, items, starts, ends = documents[order], items[order], starts[order], ends[order]
    if not order.size:
        return Spans(documents, items, starts, ends)
    changes = (documents[1:] != documents[:-1]) | (items[1:] != items[:-1])
    group = np.cumsum(np.append(False, changes))
    # Groups are laid out one after the other, so that the end reached so far never comes from another group.
    width = ends.max() + 1
    reached = np.maximum.accumulate(ends + group * width)
    first = np.append(True, starts[1:] + group[1:] * width > reached[:-1])
    places = np.flatnonzero(first)
    last = np.append(places[1:], order.size) - 1
    return Spans(documents[places], items[places], starts[places], reached[last] - group[places] * width)
