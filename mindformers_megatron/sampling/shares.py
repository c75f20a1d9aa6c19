"""From the weights that were asked for to the shares in force."""

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Literal

import numpy as np
import numpy.typing as npt

from mindformers_megatron.errors import ConfigError

WeightBy = Literal["samples", "tokens"]

# The schedule divides 64-bit products of two parts, so the parts of a blend add up to 2**31 at most.
MAX_TOTAL = 2**31


def check_weights(weights: Sequence[float], names: Sequence[str], option: str = "dataset_weights") -> None:
    """Raises ConfigError unless there is one finite weight ≥ 0 for each name, and one above 0."""
    if len(weights) != len(names):
        raise ConfigError(f"{option} has {len(weights)} entries for {len(names)} corpora ({', '.join(names[:8])})")
    for weight, name in zip(weights, names, strict=True):
        if isinstance(weight, bool) or not isinstance(weight, int | float) or not math.isfinite(weight) or weight < 0:
            raise ConfigError(f"{option}: the weight of {name} is {weight!r}; expected a finite number ≥ 0")
    if not any(weights):
        raise ConfigError(f"{option} are all 0: no corpus would ever be read")


def sample_weights(
    weights: Sequence[float] | None,
    tokens: Sequence[int],
    tokens_per_sample: Sequence[float],
    *,
    weight_by: WeightBy = "samples",
    temperature: float = 1.0,
) -> list[Fraction]:
    """Turns what was asked for into weights by samples, exactly.

    Args:
        weights: One for each corpus, or None: in proportion to the corpora's tokens.
        tokens: The tokens of each corpus.
        tokens_per_sample: How many tokens a sample of each corpus holds on average (fewer than seq_length where it is
            padded).
        weight_by: What the weights divide up. ``tokens``: a corpus of weight 0.3 gives 30 % of the tokens that count.
        temperature: T in p ∝ weight ** (1 / T): 1 keeps the weights, higher values even them out.

    Returns:
        Weights of samples, in any scale.
    """
    if not (math.isfinite(temperature) and temperature > 0):
        raise ConfigError(
            f"temperature is {temperature!r}; expected a number above 0 (1 keeps the weights as they are)"
        )
    # Decimals are taken at their word: 0.1 is one tenth, not the nearest binary fraction.
    asked = [Fraction(count) for count in tokens] if weights is None else [Fraction(str(weight)) for weight in weights]
    if temperature != 1.0:
        top = max(asked)
        asked = [Fraction(float(weight / top) ** (1.0 / temperature)) for weight in asked]
    if weights is None or weight_by == "tokens":
        asked = [weight / Fraction(size) for weight, size in zip(asked, tokens_per_sample, strict=True)]
    return asked


def integer_parts(weights: Sequence[Fraction]) -> npt.NDArray[np.int64]:
    """Returns whole parts in proportion to ``weights``.

    Exactly, where a total of at most 2**31 allows it, else rounded. Rounding moves no share by more than 2**-31,
    which is one sample in two billion; a weight above 0 keeps at least one part.
    """
    scale = math.lcm(*(weight.denominator for weight in weights))
    parts = [int(weight * scale) for weight in weights]
    shrink = math.gcd(*parts)
    parts = [part // shrink for part in parts]
    total = sum(parts)
    if total > MAX_TOTAL:
        room = MAX_TOTAL - len(parts)
        parts = [max(1, round(Fraction(part * room, total))) if part else 0 for part in parts]
    return np.array(parts, dtype=np.int64)
