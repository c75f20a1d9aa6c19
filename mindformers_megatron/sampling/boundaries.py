"""Where documents begin inside the rows of a batch.

The index tells, so that corpora without EOD tokens have boundaries too. Boundaries are few and rows are long, so they
are kept as places, not as a flag for every token: a *mark* is the place ``row * width + column`` of a token that
begins a new document, in rows of ``width`` = seq_length + 1 tokens. The first column never has one: what stands
before it is not in the sample.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from mindformers_megatron.format.index import Index
from mindformers_megatron.format.search import search_sorted
from mindformers_megatron.sampling.pieces import Pieces, ranges

I64 = npt.NDArray[np.int64]


def document_starts(index: Index, start: I64, length: I64) -> tuple[I64, I64]:
    """Finds the documents that begin strictly inside stretches of the token stream.

    Args:
        index: The corpus's index.
        start: int64[P], first token of each stretch.
        length: int64[P], its tokens.

    Returns:
        (stretch, offset), int64[K] each: the stretch in which a document begins, and at which of its tokens (≥ 1). A
        position where empty documents stand may come more than once.
    """
    size = index.dtype.itemsize
    first = search_sorted(index.sequence_pointers, start * size, side="right")
    behind = search_sorted(index.sequence_pointers, (start + length) * size, side="left")
    behind = np.maximum(behind, first)
    # Sequences first to behind begin inside; those of them that the document index names open a document. Most files
    # have one sequence a document, so that it names them all at their own places; that is quicker seen than searched.
    sequences = ranges(first, behind - first)
    found = behind - first
    if not np.array_equal(index.document_indices[np.minimum(sequences, index.num_documents)], sequences):
        opening = search_sorted(index.document_indices, first)
        found = search_sorted(index.document_indices, behind) - opening
        sequences = index.document_indices[ranges(opening, found)]
    stretch = np.repeat(np.arange(start.size), found)
    return stretch, index.sequence_pointers[sequences] // size - start[stretch]


def boundary_marks(index: Index, pieces: Pieces, rows: I64, width: int) -> I64:
    """Marks the tokens that begin a new document, or do not follow the token before them.

    Args:
        index: The corpus's index.
        pieces: The pieces of ``len(rows)`` samples.
        rows: int64[B], the row of each sample of ``pieces``.
        width: Tokens of a row.

    Returns:
        int64[K], marks in any order; a place may come more than once.
    """
    piece, offset = document_starts(index, pieces.start, pieces.length)
    first = rows[pieces.row] * width + pieces.column
    jumps = pieces.column > 0
    # Padding is a segment of its own: no document goes on in it.
    ends = pieces.column + pieces.length
    last = (np.append(pieces.row[1:], -1) != pieces.row) & (ends < width)
    return np.concatenate((first[piece] + offset, first[jumps], first[last] + pieces.length[last]))


def eod_marks(tokens: npt.NDArray[np.integer[Any]], eod_id: int, filled: I64) -> I64:
    """Boundaries as Megatron sees them, behind every EOD token.

    Args:
        tokens: int[B, width].
        eod_id: The EOD token.
        filled: int64[B], the tokens of each row; behind them stands padding, in which nothing ends, whatever its id.

    Returns:
        int64[K], marks, ascending.
    """
    row, column = np.nonzero(tokens[:, :-1] == eod_id)
    there = column < filled[row]
    return (row * tokens.shape[1] + column + 1)[there]


def segments_of(marks: I64, rows: int, seq_length: int) -> I64:
    """Returns the segments of the inputs of a batch.

    Args:
        marks: int64[K], ascending and distinct, in rows of ``seq_length + 1`` tokens.
        rows: Rows of the batch.
        seq_length: L, inputs of a row.

    Returns:
        int64[S], ascending: the place ``row * seq_length + column`` where each segment begins, one at the start of
        every row.
    """
    row, column = np.divmod(marks, seq_length + 1)
    inside = column < seq_length
    return np.sort(np.concatenate((np.arange(rows) * seq_length, (row * seq_length + column)[inside])))


def join_segments(segments: I64, rows: int, seq_length: int, most: int) -> tuple[I64, int]:
    """Joins the shortest segments to the one before them, until no row has more than ``most``.

    A model's table of segment ends has a fixed width; a row with more documents than it holds is no reason to stop a
    training that has run for weeks. Joining the shortest segments lets the fewest tokens see a neighbour they should
    not.

    Args:
        segments: As ``segments_of`` gives them.
        rows: Rows of the batch.
        seq_length: L, inputs of a row.
        most: Segments that a row may have; at least 1.

    Returns:
        The segments that are left (the same array where no row overflows), and how many were joined.
    """
    row = segments // seq_length
    surplus = np.bincount(row, minlength=rows) - most
    crowded = np.flatnonzero(surplus > 0)
    if not crowded.size:
        return segments, 0
    lengths = np.diff(segments, append=rows * seq_length)
    kept = np.ones(segments.size, dtype=np.bool_)
    for number in crowded.tolist():
        others = np.flatnonzero(row == number)[1:]
        kept[others[np.argsort(lengths[others], kind="stable")[: surplus[number]]]] = False
    return segments[kept], int(surplus[crowded].sum())
