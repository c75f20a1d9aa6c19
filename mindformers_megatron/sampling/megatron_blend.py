"""Megatron's blend: which corpus gives each sample of a mix, in the very order of Megatron-core's BlendedDataset.

At step s it takes the corpus that lags behind most: the first one of largest ``weight · max(s, 1) - taken``, in
float64. Only the steps before tell what a step takes, so that they are gone through one by one. See ``helpers.cpp`` and
``blended_megatron_dataset_builder.py`` in
https://github.com/NVIDIA/Megatron-LM/tree/main/megatron/core/datasets.

This is the order of x86-64. On other machines g++ may fuse the product and the difference into one operation, so that a
Megatron compiled there can decide ties in another way.
"""

import importlib
import logging
import math
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from mindformers_megatron.errors import ConfigError
from mindformers_megatron.sampling.index_cache import StoredArrays, stored_arrays

F64 = npt.NDArray[np.float64]
I64 = npt.NDArray[np.int64]

# Megatron's default for mid_level_dataset_surplus.
SURPLUS = 0.005
_MOST_CORPORA = 32766
_NO_LIMIT = 2**62
# Steps looked ahead when corpora are left out of the search; of little effect between 32 and 256.
_BLOCK = 64
# In units of what the interpreter does in about 15 nanoseconds: below, it is done before a compiler has begun.
_WORTH_COMPILING = 10_000_000

_log = logging.getLogger(__name__)


def mindformers_sizes(weights: Sequence[float], num_samples: int) -> tuple[list[int], list[int]]:
    """The same as ``blend_sizes`` by the rule of MindFormers' loader, which follows an older Megatron.

    It builds what is asked and 0.5 % more, rounded up once, and takes all of it: the blend is longer than asked.
    """
    _check_weights(weights)
    built = [math.ceil(num_samples * weight * (1 + SURPLUS)) for weight in _normalize(weights).tolist()]
    return built, built


def blend_sizes(weights: Sequence[float], num_samples: int, *, surplus: float = SURPLUS) -> tuple[list[int], list[int]]:
    """Says how many samples each corpus of a weighted blend gives.

    Args:
        weights: One for each corpus, above 0, of any sum.
        num_samples: Samples wanted of the blend.
        surplus: Megatron's ``mid_level_dataset_surplus``, the share that is built in excess of what is used.

    Returns:
        (used, built): what to ask of ``MegatronBlend.of_weights``, and as ``num_samples`` of each corpus's
        ``MegatronOrder``. The used ones are each rounded up; their sum, the length of the blend, can exceed
        ``num_samples``.

    Raises:
        ConfigError: For weights or numbers out of range.
    """
    _check_weights(weights)
    if num_samples < 1 or surplus < 0:
        raise ConfigError(f"num_samples {num_samples} and surplus {surplus}; expected at least 1 and at least 0")
    used = [math.ceil(num_samples * weight) for weight in _normalize(weights).tolist()]
    return used, [math.ceil(size * (1 + surplus)) for size in used]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MegatronBlend:
    """A mix of corpora in Megatron's order. It ends, as Megatron's does.

    Attributes:
        arrays: ``dataset_index`` int16[N], the corpus of each sample; ``dataset_sample_index`` int64[N], the
            how-manieth sample of that corpus it is; ``counts`` int64[K], the samples that each corpus gives.
    """

    arrays: StoredArrays

    @classmethod
    def of_weights(
        cls,
        weights: Sequence[float],
        used: Sequence[int],
        available: Sequence[int],
        *,
        cache_dir: str | os.PathLike[str] | None = None,
    ) -> "MegatronBlend":
        """Mixes by weight.

        Args:
            weights: One for each corpus, above 0, of any sum.
            used: From ``blend_sizes``.
            available: Samples that each corpus's order has.
            cache_dir: Where to keep the arrays; None: in memory only.

        Raises:
            ConfigError: For weights out of range, and a corpus of which the mix takes more samples than it has.
        """
        _check_weights(weights)
        # Twice, as Megatron does: the second division can change the last bit.
        return cls._build(_normalize(_normalize(weights)), None, sum(used), available, cache_dir)

    @classmethod
    def of_sizes(
        cls,
        available: Sequence[int],
        num_samples: int | None = None,
        *,
        cache_dir: str | os.PathLike[str] | None = None,
    ) -> "MegatronBlend":
        """Mixes one epoch of each corpus, in proportion to their sizes.

        Args:
            available: Samples that each corpus's order, built with ``num_samples=None``, has.
            num_samples: Samples wanted; there are no more than all corpora have. None: every sample of all corpora.
            cache_dir: Where to keep the arrays; None: in memory only.

        Raises:
            ConfigError: For a corpus without samples.
        """
        _check_weights(available)
        total = sum(available)
        if num_samples is None:
            return cls._build(np.array(available, dtype=np.float64) / total, available, total, available, cache_dir)
        return cls._build(_normalize(available), None, min(num_samples, total), available, cache_dir)

    @classmethod
    def _build(
        cls,
        weights: F64,
        limits: Sequence[int] | None,
        size: int,
        available: Sequence[int],
        cache_dir: str | os.PathLike[str] | None,
    ) -> "MegatronBlend":
        # float.hex, as decimal digits need not give the same bits in another program.
        parameters = {
            "weights": [weight.hex() for weight in weights.tolist()],
            "limits": None if limits is None else list(limits),
            "size": size,
        }
        arrays = stored_arrays(cache_dir, "megatron-blend", parameters, lambda: _mix(weights, limits, size))
        blend = cls(arrays=arrays)
        for place, (count, most) in enumerate(zip(blend.counts.tolist(), available, strict=True)):
            if count > most:
                raise ConfigError(
                    f"the blend of {size} samples takes {count} from corpus {place}, which has {most}; raise surplus"
                )
        return blend

    def __len__(self) -> int:
        return int(self.arrays["dataset_index"].size)

    @property
    def dataset_index(self) -> npt.NDArray[np.int16]:
        """int16[N], the corpus of each sample."""
        return self.arrays["dataset_index"]

    @property
    def dataset_sample_index(self) -> I64:
        """int64[N], the how-manieth sample of its corpus each one is."""
        return self.arrays["dataset_sample_index"]

    @property
    def counts(self) -> I64:
        """int64[K], the samples that each corpus gives."""
        return self.arrays["counts"]

    def locate(self, samples: I64) -> tuple[I64, I64]:
        """Tells where samples come from.

        Args:
            samples: int64[B], 0 ≤ sample < N.

        Returns:
            (corpus, cursor), int64[B] each.

        Raises:
            IndexError: For a sample beyond the last one.
        """
        if samples.size and not 0 <= samples.min() <= samples.max() < len(self):
            raise IndexError(f"samples {samples.min()} to {samples.max()} asked for, the blend has {len(self)}")
        return self.dataset_index[samples].astype(np.int64), self.dataset_sample_index[samples].astype(np.int64)


def _check_weights(weights: Sequence[float]) -> None:
    if not 1 <= len(weights) <= _MOST_CORPORA:
        raise ConfigError(f"{len(weights)} corpora; Megatron's blend takes from 1 to {_MOST_CORPORA}")
    for place, weight in enumerate(weights):
        if not (math.isfinite(weight) and weight > 0):
            raise ConfigError(
                f"corpus {place} of the blend has a weight, or a number of samples, of {weight}; expected one above 0: "
                "leave the corpus out"
            )


def _normalize(weights: Sequence[float] | F64) -> F64:
    values = np.array(weights, dtype=np.float64)
    return values / np.sum(values)


def _mix(weights: F64, limits: Sequence[int] | None, size: int) -> dict[str, npt.NDArray[Any]]:
    order = np.empty(size, dtype=np.int16)
    position = np.empty(size, dtype=np.int64)
    counts = np.zeros(weights.size, dtype=np.int64)
    most = np.full(weights.size, _NO_LIMIT, dtype=np.int64) if limits is None else np.array(limits, dtype=np.int64)
    contenders = np.zeros(weights.size, dtype=np.int64)
    work = size * (30 + weights.size)
    compiled = _compiled_steps() if work >= _WORTH_COMPILING else None
    if compiled is not None:
        compiled(weights, most, counts, contenders, order, position)
    else:
        if work > 100 * _WORTH_COMPILING:
            _log.warning(
                "mixing %d samples of %d corpora in Megatron's order takes about %d s without numba; install it",
                size,
                weights.size,
                work * 15e-9,
            )
        # The interpreter is several times faster on lists than on arrays.
        numbers = counts.tolist()
        _take_steps(weights.tolist(), most.tolist(), numbers, contenders.tolist(), order, position)
        counts = np.array(numbers, dtype=np.int64)
    return {"dataset_index": order, "dataset_sample_index": position, "counts": counts}


@cache
def _compiled_steps() -> Callable[..., None] | None:
    try:
        numba: Any = importlib.import_module("numba")
    except ImportError:
        return None
    try:
        # Without fastmath: no fused operations and no reordering, so that float64 is what it says.
        return numba.njit(_take_steps, cache=True, nogil=True)
    except RuntimeError:
        # No folder to keep compiled code in.
        return numba.njit(_take_steps, nogil=True)


def _take_steps(weights: Any, limits: Any, counts: Any, contenders: Any, order: Any, position: Any) -> None:
    """Fills ``order`` and ``position``; plain enough for a compiler, and the same when interpreted.

    Most corpora cannot win for a while: an error grows with the steps, and is at most what it is at the last step of a
    block, in float64 as well, since rounding keeps the order of numbers. Those whose bound stays below a threshold are
    left out of the block's search; a winner above the threshold is the winner of all.

    Args:
        weights: float64[K].
        limits: int64[K], samples that a corpus can give.
        counts: int64[K], samples given so far.
        contenders: int64[K], scratch.
        order: int16[N], filled with the corpus of each step.
        position: int64[N], filled with its count before that step.
    """
    threshold = -math.inf
    step = 0
    while step < len(order):
        stop = min(step + _BLOCK, len(order))
        horizon = float(max(stop - 1, 1))
        number = 0
        for corpus in range(len(weights)):
            if counts[corpus] < limits[corpus] and weights[corpus] * horizon - counts[corpus] > threshold:
                contenders[number] = corpus
                number += 1
        lowest = math.inf
        winner = 0
        while step < stop:
            scale = float(max(step, 1))
            best = threshold
            winner = -1
            for place in range(number):
                corpus = contenders[place]
                error = weights[corpus] * scale - counts[corpus]
                winner = corpus if error > best else winner
                best = error if error > best else best
            if winner < 0:
                break
            lowest = min(lowest, best)
            order[step] = winner
            position[step] = counts[winner]
            counts[winner] += 1
            step += 1
            if counts[winner] == limits[winner]:
                break
        if winner < 0:
            # No contender came up to the threshold; the next block looks at all corpora.
            threshold = -math.inf
        elif threshold == -math.inf:
            threshold = lowest - 1.0
        else:
            threshold += 0.25 * (lowest - threshold)
