"""Which sources the tokens of samples come from, by the provenance of the documents that they are cut from."""

from collections import Counter

import numpy as np
import numpy.typing as npt

from mindformers_megatron.format.document_sources import DocumentSources
from mindformers_megatron.format.index import Index
from mindformers_megatron.format.paths import docs_path
from mindformers_megatron.format.search import search_sorted
from mindformers_megatron.sampling.boundaries import document_starts
from mindformers_megatron.sampling.pieces import Pieces
from mindformers_megatron.sampling.plan import SamplePlan

I64 = npt.NDArray[np.int64]


class SourceCounter:
    """Counts the tokens of samples by source, for the corpora of a plan that have ``<prefix>.docs.parquet``.

    Attributes:
        sources: The opened provenance, by corpus.
    """

    def __init__(self, plan: SamplePlan) -> None:
        """Reads the ends of the files.

        Raises:
            DataError: One of them is damaged.
        """
        self._plan = plan
        prefixes = {name: corpus.dataset.prefix for name, corpus in plan.corpora.items()}
        self.sources = {
            name: DocumentSources(prefix) for name, prefix in prefixes.items() if docs_path(prefix).exists()
        }

    def tokens(self, samples: I64) -> dict[str, int]:
        """Tokens of samples (those behind the last input included) by source; corpora without provenance give none.

        Args:
            samples: int64[B], numbers of samples.
        """
        counts: Counter[str] = Counter()
        numbers, cursors = self._plan.locate(samples)
        for number in np.unique(numbers).tolist():
            name = self._plan.names[number]
            sources = self.sources.get(name)
            if sources is not None:
                pieces = self._plan.pieces(name, cursors[numbers == number])
                documents, lengths = documents_of(self._plan.corpora[name].dataset.index, pieces)
                codes = sources.of(documents)
                totals = np.bincount(codes, weights=lengths, minlength=len(sources.names)).astype(np.int64)
                found = zip(sources.names, totals.tolist(), strict=True)
                counts.update({source: total for source, total in found if total})
        return dict(counts)


def documents_of(index: Index, pieces: Pieces) -> tuple[I64, I64]:
    """The documents that pieces are cut from: (document, tokens taken from it), int64[K] each."""
    piece, offset = document_starts(index, pieces.start, pieces.length)
    # Each piece begins in some document; each document that begins inside it takes over from there.
    owner = np.concatenate((np.arange(pieces.start.size), piece))
    begin = np.concatenate((np.zeros(pieces.start.size, dtype=np.int64), offset))
    order = np.lexsort((begin, owner))
    owner, begin = owner[order], begin[order]
    last = np.append(owner[1:] != owner[:-1], True)
    end = np.where(last, pieces.length[owner], np.append(begin[1:], 0))
    taken = end > begin
    tokens = (pieces.start[owner] + begin)[taken]
    sequences = search_sorted(index.sequence_pointers, tokens * index.dtype.itemsize, side="right") - 1
    documents = search_sorted(index.document_indices, sequences, side="right") - 1
    return documents, (end - begin)[taken]
