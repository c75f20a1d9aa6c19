"""Which corpus gives sample g, and which of its samples that is: exact shares in any prefix, from any position.

A greedy scheduler (Megatron's) must be run from the start to know sample 10**9. Here the corpora hang on a binary
tree. Of the first *m* samples that reach a node, its left side gets

    L(m) = floor((m * a + b // 2) / b)        a of the node's b parts hang on the left

which is the evenly spaced sequence that rounds m·a/b to the nearest integer (Bresenham's line). Sample *m* goes left if
L(m + 1) > L(m), as the side's L(m)-th, and the same rule sends it on from there: O(depth) integer operations, no
state, no period to store, and no drift, for all is whole numbers. A side's count is never off by more than 1/2 at its
node, and what it inherits from above shrinks with its share; see ``Blend.counts`` for the bound.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

I64 = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Blend:
    """A schedule over corpora with whole parts (see ``shares.integer_parts``).

    Attributes:
        parts: int64[N], the parts of each corpus, at least one above 0; their sum is at most 2**31.
    """

    parts: I64
    # The tree: per inner node the parts on its left and in all, and its two sides: an inner node, or ~corpus for a
    # leaf.
    _left_parts: I64 = field(init=False, repr=False, compare=False)
    _all_parts: I64 = field(init=False, repr=False, compare=False)
    _sides: I64 = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        nodes: list[tuple[int, int]] = []
        sides: list[list[int]] = []
        order = np.argsort(-self.parts, kind="stable")[: np.count_nonzero(self.parts)]
        edges = np.concatenate(([0], np.cumsum(self.parts[order])))
        # Heavy corpora first, and each cut where the parts halve: a heavy corpus sits near the root, where errors are
        # smallest.
        pending = [(0, len(order), -1, 0)]
        while pending:
            begin, end, parent, side = pending.pop()
            if end - begin == 1:
                label = ~int(order[begin])
            else:
                label = len(nodes)
                middle = int(np.searchsorted(edges, (edges[begin] + edges[end]) / 2))
                middle = min(max(middle, begin + 1), end - 1)
                nodes.append((int(edges[middle] - edges[begin]), int(edges[end] - edges[begin])))
                sides.append([0, 0])
                pending += [(middle, end, label, 1), (begin, middle, label, 0)]
            if parent >= 0:
                sides[parent][side] = label
        if not nodes:
            # One corpus: a root whose right side is never taken.
            nodes, sides = [(1, 1)], [[~int(order[0]), ~int(order[0])]]
        table = np.array(nodes, dtype=np.int64)
        object.__setattr__(self, "_left_parts", table[:, 0].copy())
        object.__setattr__(self, "_all_parts", table[:, 1].copy())
        object.__setattr__(self, "_sides", np.array(sides, dtype=np.int64))

    @property
    def shares(self) -> npt.NDArray[np.float64]:
        """float64[N], the share of each corpus in force; sums to 1."""
        return self.parts / self.parts.sum()

    def locate(self, samples: I64) -> tuple[I64, I64]:
        """Returns which corpus gives each sample, and the how-manieth of that corpus it is.

        Args:
            samples: int64[B], numbers of samples, 0 ≤ g < 2**62, in any order.

        Returns:
            corpus int64[B] and cursor int64[B].
        """
        rank = samples.copy()
        node = np.zeros_like(samples)
        active = np.arange(samples.size)
        while active.size:
            here, count = node[active], rank[active]
            left, whole = self._left_parts[here], self._all_parts[here]
            turns, rest = np.divmod(count, whole)
            steps, phase = np.divmod(rest * left + whole // 2, whole)
            before = turns * left + steps
            goes_left = phase >= whole - left
            rank[active] = np.where(goes_left, before, count - before)
            node[active] = self._sides[here, np.where(goes_left, 0, 1)]
            active = active[node[active] >= 0]
        return ~node, rank

    def samples_of(self, corpus: int, ranks: Sequence[int]) -> list[int]:
        """Returns which sample is the ``rank``-th of a corpus, for each rank: the inverse of ``locate``."""
        path = self._path(corpus)
        found = []
        for rank in ranks:
            for node, side in path:
                left, whole = int(self._left_parts[node]), int(self._all_parts[node])
                # L(m) = (m·a + c) // b for the left; what it leaves, m - L(m), has the same form for the right.
                parts, shift = (left, whole // 2) if side == 0 else (whole - left, whole - 1 - whole // 2)
                rank = -(-((rank + 1) * whole - shift) // parts) - 1
            found.append(rank)
        return found

    def _path(self, corpus: int) -> list[tuple[int, int]]:
        """The (node, side) from a corpus's leaf up to the root."""
        if len(self._sides) == 1 and self._sides[0, 0] == self._sides[0, 1]:
            return []
        above = {int(side): (node, place) for node, sides in enumerate(self._sides) for place, side in enumerate(sides)}
        path, label = [], ~corpus
        while label in above:
            path.append(above[label])
            label = path[-1][0] or -(2**62)
        return path

    def counts(self, samples: int) -> I64:
        """Returns int64[N]: how many of the first ``samples`` samples each corpus gives.

        The count of a corpus of share p differs from samples · p by at most (1 + depth) / 2, depth being that of its
        leaf in the tree: at most N - 1, and about log2(1 / p). It is never off by as much as the number of corpora.
        """
        result = np.zeros_like(self.parts)
        reached = np.zeros(len(self._sides), dtype=object)
        reached[0] = samples
        # A node stands behind its parent in the table, so one pass in order is enough. Python's integers: no overflow
        # to think of.
        for node, (left, whole) in enumerate(zip(self._left_parts.tolist(), self._all_parts.tolist(), strict=True)):
            total = reached[node]
            first = (total * left + whole // 2) // whole
            for side, count in zip(self._sides[node].tolist(), (first, total - first), strict=True):
                if side >= 0:
                    reached[side] = count
                else:
                    result[~side] += count
        return result
