"""Limits on measures, and which documents break them."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mindformers_megatron.corpus.tally import Drop


@dataclass(frozen=True, slots=True)
class Bound:
    """A limit.

    Attributes:
        reason: what documents beyond it are counted under.
        values: of each document, number[D].
        least: the smallest value that passes.
        most: the largest value that passes.
        among: the documents it is for, bool[D]; None: all.
        strict: whether what is just at a limit does not pass.
    """

    reason: str
    values: NDArray[Any]
    least: float = -math.inf
    most: float = math.inf
    among: NDArray[np.bool_] | None = None
    strict: bool = False


def judge(bounds: Iterable[Bound], count: int) -> list[Drop | None]:
    """For each document the first limit that it breaks, or None.

    Args:
        bounds: limits, in order.
        count: of documents.
    """
    drops: list[Drop | None] = [None] * count
    for bound in bounds:
        values = bound.values
        if bound.strict:
            broken = (values <= bound.least) | (values >= bound.most)
        else:
            broken = (values < bound.least) | (values > bound.most)
        if bound.among is not None:
            broken &= bound.among
        for place in np.flatnonzero(broken):
            if drops[place] is None:
                drops[place] = Drop(bound.reason, _detail(bound, bound.values[place]))
    return drops


def first_of(*several: Sequence[Drop | None]) -> list[Drop | None]:
    """For each document the first reason there is to drop it."""
    return [next((drop for drop in drops if drop is not None), None) for drops in zip(*several, strict=True)]


def _detail(bound: Bound, value: Any) -> str:
    if value <= bound.least:
        limit = f"{'more than' if bound.strict else 'at least'} {bound.least:,g}"
    else:
        limit = f"{'less than' if bound.strict else 'at most'} {bound.most:,g}"
    return f"{value:,.3g} where {limit} is asked" if isinstance(value, float) else f"{value:,} where {limit} is asked"
