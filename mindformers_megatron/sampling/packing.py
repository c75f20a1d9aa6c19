"""Best-fit packing by histogram: how many rows hold which lengths, without looking at a single document.

Best-fit decreasing puts every item into the fullest row that still has room, longest items first: the packing of
"Fewer Truncations Improve Language Modeling" (Ding et al., 2024). Items of one length are interchangeable, so it is
run on the counts of lengths (as Krell et al., 2021, do for their packing), and its cost does not grow with the number
of documents.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

I64 = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Group:
    """Rows of the same make.

    Attributes:
        rows: How many rows there are.
        items: (length, first, each) for each length in a row, longest first: row t of the group holds the ``each``
            items of that length from ``first + t * each`` on, counted among all items of that length.
    """

    rows: int
    items: tuple[tuple[int, int, int], ...]


def pack(counts: I64, capacity: int) -> list[Group]:
    """Packs items into rows.

    Args:
        counts: int64[capacity + 1], how many items there are of each length; lengths 0 are left out.
        capacity: What a row holds.

    Returns:
        Groups that hold every item exactly once, no row beyond its capacity.
    """
    # Per room left, the groups with that room. A bitmap of the rooms in use finds the tightest fit without visiting
    # each.
    open_groups: list[list[Group]] = [[] for _ in range(capacity + 1)]
    in_use = np.zeros(capacity + 1, dtype=np.bool_)

    def keep(group: Group, room: int) -> None:
        open_groups[room].append(group)
        in_use[room] = True

    for length in np.flatnonzero(counts[1:])[::-1].tolist():
        length += 1
        left = int(counts[length])
        taken = 0
        rooms = np.flatnonzero(in_use[length:]) + length
        for room in [*rooms.tolist(), capacity]:
            while left and (open_groups[room] or room == capacity):
                group = open_groups[room].pop() if open_groups[room] else Group(left, ())
                # Filling a row up before going to the next is what best fit does: it is then the tightest.
                each = min(room // length, left)
                filled = min(group.rows, left // each)
                for rows, share in _split(group, filled):
                    if share:
                        keep(Group(rows.rows, (*rows.items, (length, taken, each))), room - each * length)
                        taken += filled * each
                        left -= filled * each
                    elif group.items:
                        keep(rows, room)
            in_use[room] = bool(open_groups[room])
            if not left:
                break
    return [group for groups in open_groups for group in groups]


def _split(group: Group, rows: int) -> list[tuple[Group, bool]]:
    """Cuts a group into its first ``rows`` rows (True) and the rest (False)."""
    parts = [(Group(rows, group.items), True)]
    if rows < group.rows:
        rest = tuple((length, first + rows * each, each) for length, first, each in group.items)
        parts.append((Group(group.rows - rows, rest), False))
    return parts
