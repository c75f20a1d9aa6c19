"""Where lengths and pointers of an index contradict each other, and which of them is to be believed.

An index says twice where a sequence ends: by its pointer and length, and by the pointer of the next one (or the size of
``.bin``, for the last). Where the two differ, something is wrong; what that is, the neighbours tell. Let the *drift* of
a sequence be its pointer minus what all lengths before it add up to. It is 0 throughout a sound index. A wrong length
changes the drift of all later sequences; a wrong pointer that of its own only. So the explanation that takes the fewest
wrong values is the one that is believed: a shortest path through the runs of equal drift.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from mindformers_megatron.format.layout import MAX_SEQUENCE_TOKENS

# An index with more contradictions was not damaged, it is something else.
MOST_CONTRADICTIONS = 100_000
# Contradictions that are looked at together: twice as many as there are pointers in 64 KiB.
_LOOKBACK = 1 << 14
_NEVER = np.int64(1 << 60)


@dataclass(frozen=True, slots=True)
class Contradictions:
    """Ends of sequences behind which the next one does not begin.

    Attributes:
        sequences: int64[K], ascending: the sequences concerned; -1 for what stands before the first one.
        steps: int64[K], bytes from the end of the sequence to where the next one begins.
        pointers: int64[K], bytes: where the sequence begins.
        following: int64[K], bytes: where the next one begins, or ``.bin`` ends.
    """

    sequences: NDArray[np.int64]
    steps: NDArray[np.int64]
    pointers: NDArray[np.int64]
    following: NDArray[np.int64]

    @classmethod
    def joined(cls, parts: "list[Contradictions]") -> "Contradictions":
        """Those of neighbouring stretches of an index, in order."""
        names = cls.__dataclass_fields__
        return cls(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))


@dataclass(frozen=True, slots=True)
class Explanation:
    """What is wrong with neighbouring sequences.

    Attributes:
        kind: ``length``: the length of the one sequence; ``pointer``: the pointers of all of them; ``unclear``: some of
            their lengths and pointers; ``gap``: nothing, but bytes stand before the first sequence; ``size``: ``.bin``
            does not end where the last sequence does, or it is the length of that which is wrong.
        begin: the first of the sequences.
        end: the first that is none of them.
        start: bytes: where the first of them should begin (``pointer``), where it does begin (``length``, ``unclear``),
            or where the last sequence ends (``size``).
        stop: bytes: where what is behind the last of them begins; where ``.bin`` ends (``size``).
    """

    kind: Literal["length", "pointer", "unclear", "gap", "size"]
    begin: int
    end: int
    start: int
    stop: int


def contradictions(
    lengths: NDArray[np.int32], pointers: NDArray[np.int64], following: int, first: int, itemsize: int
) -> Contradictions:
    """Compares the ends of neighbouring sequences with the beginnings of those behind them.

    Args:
        lengths: int32[N], tokens; N is at least 1.
        pointers: int64[N], bytes.
        following: where the sequence behind the last of these begins, or ``.bin`` ends.
        first: number of the first of these sequences.
        itemsize: bytes of a token.
    """
    behind = np.append(pointers[1:], np.int64(following))
    # Differences of damaged pointers may wrap around; wrapped ones are no less wrong.
    steps = behind - pointers - lengths.astype(np.int64) * itemsize
    wrong = np.flatnonzero(steps)
    columns = [wrong.astype(np.int64) + first, steps[wrong], pointers[wrong], behind[wrong]]
    if first == 0 and pointers[0] != 0:
        before = (-1, pointers[0], 0, pointers[0])
        columns = [np.insert(column, 0, value) for column, value in zip(columns, before, strict=True)]
    return Contradictions(*columns)


def explain(found: Contradictions, num_sequences: int, itemsize: int) -> tuple[Explanation, ...]:
    """Finds the fewest wrong values that explain contradictions.

    Args:
        found: all of them in an index, at most ``MOST_CONTRADICTIONS``.
        num_sequences: of the index, at least 1.
        itemsize: bytes of a token.

    Returns:
        Explanations in the order of their sequences, which do not overlap.
    """
    count = found.sequences.size
    if not count:
        return ()
    runs = _Runs.of(found, num_sequences)
    cost, before, tied = np.full(count + 1, _NEVER), np.zeros(count + 1, np.int64), np.zeros(count + 1, bool)
    cost[0] = 0
    # How many pointers are disbelieved if everything between two runs is.
    base = np.concatenate(([0], np.cumsum(runs.sizes)))
    for run in range(1, count + 1):
        first = int(found.following[run - 1])
        if first % itemsize or first < 0:
            continue
        low = max(run - _LOOKBACK, 0)
        earlier = slice(low, run)
        last = found.pointers[earlier]
        price = cost[earlier] + (base[run] - base[low + 1 : run + 1]) + (runs.drifts[earlier] != runs.drifts[run])
        possible = (last <= first) & (cost[earlier] < _NEVER)
        # Where nothing is between, the length of one sequence makes up the whole difference.
        possible[-1] &= found.sequences[run - 1] < 0 or first - int(last[-1]) <= MAX_SEQUENCE_TOKENS * itemsize
        if not possible.any():
            continue
        price = np.where(possible, price, _NEVER)
        # The farthest of the cheapest: what it leaves out is all that may be wrong if there are several.
        best = low + int(price.argmin())
        cost[run], before[run] = price[best - low], best
        tied[run] = np.count_nonzero(price == cost[run]) > 1
    return _walk(found, runs, cost, before, tied, base)


@dataclass(frozen=True, slots=True)
class _Runs:
    """Neighbouring places of equal drift: what is before the first sequence, the sequences, and the end of ``.bin``."""

    sizes: NDArray[np.int64]
    drifts: NDArray[np.int64]

    @classmethod
    def of(cls, found: Contradictions, num_sequences: int) -> "_Runs":
        begins = np.concatenate(([-1], found.sequences + 1))
        sizes = np.diff(begins, append=num_sequences + 1)
        return cls(sizes, np.concatenate(([0], np.cumsum(found.steps))))


def _walk(
    found: Contradictions,
    runs: _Runs,
    cost: NDArray[np.int64],
    before: NDArray[np.int64],
    tied: NDArray[np.bool_],
    base: NDArray[np.int64],
) -> tuple[Explanation, ...]:
    count = found.sequences.size
    num_sequences = int(base[-1]) - 2
    explanations = []
    # Where the sequences end by their lengths.
    ends = found.following - found.steps
    run = count
    # The size of .bin is one value that may be wrong, like any other.
    without = np.minimum(cost[:count] + (base[count + 1] - base[1 : count + 1]), _NEVER)
    cheapest = count - 1 - int(without[::-1].argmin())
    if without[cheapest] <= cost[count]:
        believed = int(found.sequences[cheapest]) + 1
        if believed < num_sequences:
            explanations.append(Explanation("pointer", believed, num_sequences, int(ends[cheapest]), -1))
        if runs.sizes[count] == 1:
            end, size = int(ends[-1]), int(found.following[-1])
            doubtful = without[cheapest] == cost[count]
            explanations.append(Explanation("size", num_sequences - doubtful, num_sequences, end, size))
        run = cheapest
    while run > 0:
        earlier = int(before[run])
        last, first = int(found.sequences[earlier]), int(found.sequences[run - 1]) + 1
        start, stop = int(found.pointers[earlier]), int(found.following[run - 1])
        if last < 0 and first == 0:
            explanations.append(Explanation("gap", 0, 0, 0, stop))
        elif runs.drifts[earlier] == runs.drifts[run] and not tied[run]:
            explanations.append(Explanation("pointer", last + 1, first, int(ends[earlier]), stop))
        elif earlier == run - 1 and not tied[run]:
            explanations.append(Explanation("length", last, first, start, stop))
        else:
            explanations.append(Explanation("unclear", max(last, 0), first, start, stop))
        run = earlier
    return tuple(sorted(explanations, key=lambda explanation: (explanation.begin, explanation.end)))
