"""One column of a batch, written a few rows at a time.

Arrays of a whole batch leave the processor's cache before anybody reads them; those of a few rows, written just before
a framework copies them, do not.
"""

from abc import ABC, abstractmethod

import numpy as np
import numpy.typing as npt

I32 = npt.NDArray[np.int32]

# What is written at once, in bytes of one column: little enough for the cache, and enough for what an operation costs
# beside its work.
_WRITTEN_BYTES = 2**20


class RowColumn(ABC):
    """A column of B rows.

    Attributes:
        rows: B.
        shape: Of one row.
        common: The row that all rows are, if they are all the same; read-only.
    """

    rows: int
    shape: tuple[int, ...]
    common: I32 | None = None

    def read(self, first: int, behind: int) -> I32:
        """The rows ``first`` to ``behind``: int32[behind - first, *shape]; read-only if all rows are the same."""
        if self.common is not None:
            return np.broadcast_to(self.common, (behind - first, *self.shape))
        column = np.empty((behind - first, *self.shape), dtype=np.int32)
        step = rows_at_once(column[:1].nbytes)
        for row in range(first, behind, step):
            self.write(row, min(row + step, behind), column[row - first : row - first + step])
        return column

    @abstractmethod
    def write(self, first: int, behind: int, out: I32) -> None:
        """Writes the rows ``first`` to ``behind`` to ``out``, int32[behind - first, *shape]."""


def rows_at_once(row_bytes: int) -> int:
    """How many rows to write at once, whose column has so many bytes in one row; at least 1."""
    return max(1, _WRITTEN_BYTES // max(1, row_bytes))


def shared(row: I32) -> I32:
    """Makes a row that is handed out more than once read-only."""
    row.flags.writeable = False
    return row
