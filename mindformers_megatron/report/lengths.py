"""How long the documents of a pair are."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mindformers_megatron.format.index import Index

I64 = npt.NDArray[np.int64]

# Of more documents than that, evenly spaced stretches are looked at: a second, and 100 MB of the index.
MOST_DOCUMENTS = 1 << 23
_BLOCK = 1 << 16


@dataclass(frozen=True, slots=True, kw_only=True)
class LengthHistogram:
    """Lengths of documents in tokens.

    Attributes:
        counts: Documents by the bit length of their length: those of 512 to 1,023 tokens under 10, empty ones under 0.
        documents: Looked at.
        of: Documents in all.
        median: Of the lengths looked at.
        longest: The largest of them.
    """

    counts: dict[int, int]
    documents: int
    of: int
    median: int
    longest: int


def length_histogram(index: Index) -> LengthHistogram:
    """Counts the documents of a pair by length."""
    blocks = -(-index.num_documents // _BLOCK)
    chosen = np.unique(np.linspace(0, blocks - 1, min(blocks, MOST_DOCUMENTS // _BLOCK)).astype(np.int64))
    parts = [_lengths(index, first, min(first + _BLOCK, index.num_documents)) for first in (chosen * _BLOCK).tolist()]
    lengths = np.concatenate([np.zeros(0, dtype=np.int64), *parts])
    # Exact below 2**53, far beyond any document.
    bits = np.frexp(lengths.astype(np.float64))[1]
    counts = np.bincount(bits) if bits.size else np.zeros(0, dtype=np.int64)
    return LengthHistogram(
        counts={place: int(count) for place, count in enumerate(counts.tolist()) if count},
        documents=int(lengths.size),
        of=index.num_documents,
        median=int(np.median(lengths)) if lengths.size else 0,
        longest=int(lengths.max(initial=0)),
    )


def _lengths(index: Index, first: int, last: int) -> I64:
    """Tokens of documents [first, last): int64."""
    sequences = np.asarray(index.document_indices[first : last + 1], dtype=np.int64)
    inside = np.minimum(sequences, max(index.num_sequences - 1, 0))
    begins = np.asarray(index.sequence_pointers[inside], dtype=np.int64) // index.dtype.itemsize
    begins[sequences >= index.num_sequences] = index.num_tokens
    return np.diff(begins)
