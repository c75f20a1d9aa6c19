"""Train, validation and test as parts of one corpus, cut where Megatron cuts them."""

import math
import re
from collections.abc import Sequence
from typing import Literal, get_args

import numpy as np

from mindformers_megatron.errors import ConfigError

Split = Literal["train", "valid", "test"]
Shares = tuple[float, float, float]

_NAMES: tuple[str, ...] = get_args(Split)
_NUMBER = re.compile(r"\d+\.?\d*|\.\d+", re.ASCII)


def parse_split(split: str | Sequence[float]) -> Shares:
    """Turns ``"969,30,1"`` or ``[0.969, 0.03, 0.001]`` into shares of train, valid and test.

    One or two numbers leave the rest without a share; in text, numbers are divided by commas or slashes. Megatron looks
    for digits and points only, so that it reads ``"1e-3,1"`` as three numbers and drops signs; here such text is
    refused.

    Args:
        split: One to three numbers ≥ 0, not all 0, of any sum.

    Returns:
        Three float64 shares of sum 1, the very ones that Megatron computes.

    Raises:
        ConfigError: For anything else.
    """
    numbers = _numbers(split)
    if not 1 <= len(numbers) <= len(_NAMES):
        raise ConfigError(
            f"split {split!r} has {len(numbers)} numbers; expected train, valid and test, as in '969,30,1'"
        )
    if not all(math.isfinite(number) and number >= 0 for number in numbers):
        raise ConfigError(f"split {split!r} has a number that is negative or not finite; expected numbers ≥ 0")
    padded = np.array([*numbers, *[0.0] * (len(_NAMES) - len(numbers))], dtype=np.float64)
    total = np.sum(padded)
    if total == 0:
        raise ConfigError(f"split {split!r} gives every part a share of 0; expected at least one number above 0")
    train, valid, test = (padded / total).tolist()
    return train, valid, test


def split_range(shares: Shares, which: Split, count: int, *, corpus: str = "the corpus") -> tuple[int, int]:
    """Says which of ``count`` sequences (or documents) belong to one part.

    Args:
        shares: From ``parse_split``.
        which: The part.
        count: Sequences in the corpus; Megatron splits by sequences, which in most files are the documents.
        corpus: What to call the corpus in an error.

    Returns:
        (begin, end), end exclusive: the edges ``share · count`` rounded half to even, as Megatron rounds them. The
        parts of one corpus neither overlap nor leave a gap.

    Raises:
        ConfigError: The part has no share, or so small a one that it gets nothing.
    """
    if which not in _NAMES:
        raise ConfigError(f"split part is {which!r}; expected one of: {', '.join(_NAMES)}")
    place = _NAMES.index(which)
    # The order of these additions is Megatron's: another one can round to another edge.
    edges = [0.0]
    for share in shares:
        edges.append(edges[-1] + share)
    begin, end = (round(edge * float(count)) for edge in edges[place : place + 2])
    if begin < end:
        return begin, end
    if shares[place] == 0:
        raise ConfigError(f"split {_text(shares)} leaves no share for {which!r}; give it a number above 0")
    raise ConfigError(
        f"split {_text(shares)} leaves no document for {which!r}: {shares[place]:.6g} of the {count} in {corpus} "
        "rounds to none; give it a larger share, or take a corpus with more documents"
    )


def _numbers(split: str | Sequence[float]) -> list[float]:
    if isinstance(split, str):
        # Megatron's own default for unsplit data is "1,": a comma at the end adds nothing.
        parts = [part.strip() for part in re.split("[,/]", split.strip().removesuffix(","))]
        for part in parts:
            if not _NUMBER.fullmatch(part):
                raise ConfigError(
                    f"split {split!r}: {part!r} is no plain number; expected digits with or without a point (no sign, "
                    "no exponent), divided by commas, as in '969,30,1'"
                )
        return [float(part) for part in parts]
    if not isinstance(split, Sequence) or not all(
        isinstance(number, int | float) and not isinstance(number, bool) for number in split
    ):
        raise ConfigError(f"split is {split!r}; expected text as '969,30,1' or a list of numbers")
    return [float(number) for number in split]


def _text(shares: Shares) -> str:
    return ",".join(f"{share:.6g}" for share in shares)
