"""How a run has been cut into steps so far: which samples a step took, through every change of batch size and ranks.

It stands in the data state as ``history``: a list of ``[sample, step, global_batch_size, ranks]``, one for each stretch
of the run, so that the steps of the past can be told from the state alone.
"""

from collections.abc import Sequence
from dataclasses import astuple, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from mindformers_megatron.errors import DataError


@dataclass(frozen=True, slots=True)
class Stretch:
    """A part of a run in which every step takes as many samples, on as many ranks.

    Attributes:
        sample: Its first sample.
        step: Steps that lie before it, as MindFormers counts them in this stretch.
        global_batch_size: Samples of a step.
        ranks: Ranks that share them.
    """

    sample: int
    step: int
    global_batch_size: int
    ranks: int


def going_on(before: Sequence[Stretch], now: Stretch) -> tuple[Stretch, ...]:
    """The history of a run that goes on with ``now``: what it takes back falls away, what it only continues stays."""
    kept = tuple(stretch for stretch in before if stretch.sample < now.sample)
    if kept:
        last = kept[-1]
        same = (last.global_batch_size, last.ranks) == (now.global_batch_size, now.ranks)
        if same and last.sample + (now.step - last.step) * last.global_batch_size == now.sample:
            return kept
    return (*kept, now)


def differences(before: Sequence[Stretch], now: Stretch) -> list[tuple[str, object, object]]:
    """What is cut otherwise than before: (field, before, now)."""
    if not before:
        return []
    last = before[-1]
    return [
        (what, old, new)
        for what, old, new in (
            ("samples of a step", last.global_batch_size, now.global_batch_size),
            ("ranks that share them", last.ranks, now.ranks),
        )
        if old != new
    ]


def to_plain(history: Sequence[Stretch]) -> list[list[int]]:
    """The history in JSON's types."""
    return [list(astuple(stretch)) for stretch in history]


def from_plain(found: Any, path: Path) -> tuple[Stretch, ...]:
    """The history as a data state has it; empty where an older program wrote it.

    Args:
        found: What stands there as ``history``; None: nothing.
        path: The data state, for messages.

    Raises:
        DataError: One line, for what is no history.
    """
    try:
        history = tuple(Stretch(*stretch) for stretch in found or [])
        sound = all(type(value) is int and value >= 0 for stretch in history for value in astuple(stretch))
        if not sound or not all(stretch.global_batch_size and stretch.ranks for stretch in history):
            raise TypeError
    except TypeError:
        raise DataError(
            f"{path}: history is {found!r}; expected a list of [sample, step, global_batch_size, ranks]"
        ) from None
    if any(before.sample >= after.sample for before, after in pairwise(history)):
        raise DataError(f"{path}: history is {found!r}; expected each stretch to begin behind the one before")
    return history
