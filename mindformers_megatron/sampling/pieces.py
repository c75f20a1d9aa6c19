"""What a sample is made from: pieces of a corpus, laid one behind the other into a row of ``seq_length + 1`` tokens.

Every order of sampling comes down to this one value, so that reading, boundaries and masks exist once.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mindformers_megatron.format.reader import IndexedDataset

I64 = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pieces:
    """The pieces of B samples, in row order and, within a row, in column order.

    A piece that does not open its row begins a new document or jumps to another place of the corpus: either way its
    first token is a boundary. Document starts *inside* a piece are found from the index.

    Attributes:
        row: int64[P], the sample that each piece belongs to, ascending.
        column: int64[P], the column of its first token.
        start: int64[P], the position of its first token in the ``.bin``, in tokens.
        length: int64[P], in tokens, at least 1.
        counted: int64[B], how many leading inputs of each row count in the loss; those behind are padding, or tokens
            that this epoch has already given.
    """

    row: I64
    column: I64
    start: I64
    length: I64
    counted: I64


def ranges(starts: I64, lengths: I64) -> I64:
    """Concatenates ``arange(start, start + length)`` for each pair, without a loop."""
    total = int(lengths.sum())
    if not total:
        return np.empty(0, dtype=np.int64)
    shift = starts - np.concatenate(([0], np.cumsum(lengths)[:-1]))
    return np.arange(total, dtype=np.int64) + np.repeat(shift, lengths)


def read_pieces(dataset: IndexedDataset, pieces: Pieces, rows: I64, out: npt.NDArray[np.int32]) -> None:
    """Copies the pieces' tokens into ``out``.

    Args:
        dataset: The corpus.
        pieces: The pieces of ``len(rows)`` samples.
        rows: int64[B], the row of ``out`` for each sample of ``pieces``.
        out: int32[*, seq_length + 1]; columns that no piece covers are left as they are.
    """
    tokens = dataset.tokens
    for row, column, start, length in zip(
        rows[pieces.row].tolist(), pieces.column.tolist(), pieces.start.tolist(), pieces.length.tolist(), strict=True
    ):
        out[row, column : column + length] = tokens(start, length)
