"""Where documents begin inside the rows of a batch.

The index tells, so that corpora without EOD tokens have boundaries too.
"""

import numpy as np
import numpy.typing as npt

from mindformers_megatron.format.index import Index
from mindformers_megatron.format.search import search_sorted
from mindformers_megatron.sampling.pieces import Pieces, ranges

Flags = npt.NDArray[np.bool_]
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
    # Sequences first to behind begin inside; those of them that the document index names open a document.
    opening = search_sorted(index.document_indices, first)
    found = np.maximum(search_sorted(index.document_indices, behind) - opening, 0)
    sequences = index.document_indices[ranges(opening, found)]
    stretch = np.repeat(np.arange(start.size), found)
    return stretch, index.sequence_pointers[sequences] // size - start[stretch]


def mark_boundaries(index: Index, pieces: Pieces, rows: I64, flags: Flags) -> None:
    """Marks the tokens that begin a new document, or do not follow the token before them.

    Args:
        index: The corpus's index.
        pieces: The pieces of ``len(rows)`` samples.
        rows: int64[B], the row of ``flags`` for each sample of ``pieces``.
        flags: bool[*, seq_length + 1]. Column 0 is never set: what stands before it is not in the sample.
    """
    piece, offset = document_starts(index, pieces.start, pieces.length)
    flags[rows[pieces.row[piece]], pieces.column[piece] + offset] = True
    jumps = pieces.column > 0
    flags[rows[pieces.row[jumps]], pieces.column[jumps]] = True
    # Padding is a segment of its own: no document goes on in it.
    ends = pieces.column + pieces.length
    last = (np.append(pieces.row[1:], -1) != pieces.row) & (ends < flags.shape[1])
    flags[rows[pieces.row[last]], ends[last]] = True


def eod_boundaries(tokens: npt.NDArray[np.int32], eod_id: int) -> Flags:
    """Boundaries as Megatron sees them, behind every EOD token: int32[B, W] → bool[B, W]; column 0 is never set."""
    flags = np.zeros(tokens.shape, dtype=np.bool_)
    np.equal(tokens[:, :-1], eod_id, out=flags[:, 1:])
    return flags


def join_segments(flags: Flags, most: int) -> tuple[Flags, int]:
    """Joins the shortest segments to the one before them, until no row has more than ``most``.

    A model's table of segment ends has a fixed width; a row with more documents than it holds is no reason to stop a
    training that has run for weeks. Joining the shortest segments lets the fewest tokens see a neighbour they should
    not.

    Args:
        flags: bool[B, L], the boundaries among the inputs (column 0 never set).
        most: Segments that a row may have; at least 1.

    Returns:
        The flags to use (the same array where no row overflows) and how many boundaries were taken away.
    """
    surplus = np.count_nonzero(flags, axis=1) + 1 - most
    crowded = np.flatnonzero(surplus > 0)
    if not crowded.size:
        return flags, 0
    flags = flags.copy()
    for row in crowded.tolist():
        starts = np.flatnonzero(flags[row])
        lengths = np.diff(starts, append=flags.shape[1])
        shortest = np.argsort(lengths, kind="stable")[: surplus[row]]
        flags[row, starts[shortest]] = False
    return flags, int(surplus[crowded].sum())
