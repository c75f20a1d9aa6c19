"""The mix over the whole run: phases, each with its own blend, each going on where the one before left every corpus.

A run whose weights never change has one phase. A ``weight_schedule``, or a change on resuming, begins another: the
corpora keep their counts, so that no sample is lost or seen twice by the change.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mindformers_megatron.errors import ConfigError
from mindformers_megatron.sampling.blend import Blend

I64 = npt.NDArray[np.int64]
Skips = tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Phase:
    """A stretch of the run under one blend.

    A sample has a *number*, counting what the run was given, and a *position* in the mix; they differ by the
    positions that ``skips`` steps over.

    Attributes:
        first: Number of its first sample.
        position: Position of its first sample; the blend counts from here.
        blend: The blend, over all corpora of the plan.
        base: int64[N], the samples that each corpus had given before.
        skips: Half-open ranges of positions to step over: sorted, disjoint, none before ``position``.
    """

    first: int
    position: int
    blend: Blend
    base: I64
    skips: Skips = ()

    def positions(self, samples: I64) -> I64:
        """int64[B] numbers of samples of this phase → int64[B] positions."""
        places = samples - self.first + self.position
        if not self.skips:
            return places
        begins, ends = np.array(self.skips, dtype=np.int64).T
        stepped = np.concatenate(([0], np.cumsum(ends - begins)))
        return places + stepped[np.searchsorted(begins - stepped[:-1], places, side="right")]

    def numbers(self, positions: Sequence[int]) -> list[int]:
        """The numbers of the samples at positions: the inverse of ``positions``; those stepped over have none."""
        return [
            position - self.position + self.first - sum(min(end, position) - begin for begin, end in passed)
            for position in positions
            for passed in [[pair for pair in self.skips if pair[0] <= position]]
            if not any(begin <= position < end for begin, end in passed)
        ]

    def locate(self, samples: I64) -> tuple[I64, I64]:
        """int64[B] numbers of samples of this phase → (corpus, cursor), int64[B] each."""
        corpus, rank = self.blend.locate(self.positions(samples) - self.position)
        return corpus, self.base[corpus] + rank

    def cursors(self, sample: int) -> I64:
        """int64[N]: how many samples each corpus has given, or been stepped over, when sample ``sample`` is next."""
        position = int(self.positions(np.array([sample], dtype=np.int64))[0])
        return self.base + self.blend.counts(position - self.position)


@dataclass(frozen=True, slots=True)
class Schedule:
    """The phases of a run, in order; the last one has no end."""

    phases: tuple[Phase, ...]

    @property
    def shares(self) -> npt.NDArray[np.float64]:
        """float64[N], the share of each corpus in the last phase."""
        return self.phases[-1].blend.shares

    def phase_at(self, sample: int) -> Phase:
        """The phase that sample ``sample`` belongs to."""
        return next(phase for phase in reversed(self.phases) if phase.first <= sample)

    def locate(self, samples: I64) -> tuple[I64, I64]:
        """int64[B] numbers of samples → (corpus, cursor), int64[B] each."""
        if len(self.phases) == 1:
            return self.phases[0].locate(samples)
        corpus, cursor = np.empty_like(samples), np.empty_like(samples)
        firsts = np.array([phase.first for phase in self.phases], dtype=np.int64)
        owner = np.searchsorted(firsts, samples, side="right") - 1
        for number in np.unique(owner).tolist():
            chosen = owner == number
            corpus[chosen], cursor[chosen] = self.phases[number].locate(samples[chosen])
        return corpus, cursor

    def samples_of(self, corpus: int, cursors: I64, until: int) -> I64:
        """Returns the numbers, ascending, of the samples that are the k-th of a corpus and were not stepped over.

        Args:
            corpus: Place of the corpus in the blends.
            cursors: int64[K], the k.
            until: Samples of the run to look at, from its start.
        """
        found: list[int] = []
        for phase, after in zip(self.phases, (*self.phases[1:], None), strict=True):
            own = cursors - phase.base[corpus]
            own = own[own >= 0]
            if after is not None:
                own = own[own < after.base[corpus] - phase.base[corpus]]
            if own.size and phase.blend.parts[corpus]:
                ranks = phase.blend.samples_of(corpus, own.tolist())
                found += phase.numbers([phase.position + rank for rank in ranks])
        return np.array(sorted(number for number in found if number < until), dtype=np.int64)

    def cursors(self, sample: int) -> I64:
        """int64[N]: how many samples each corpus has given, or been stepped over, when sample ``sample`` is next."""
        return self.phase_at(sample).cursors(sample)


def check_skips(ranges: Sequence[Sequence[int]]) -> Skips:
    """Returns the ranges sorted and joined; raises ConfigError for what is no half-open range of sample numbers."""
    for pair in ranges:
        if len(pair) != 2 or not all(isinstance(end, int) and not isinstance(end, bool) for end in pair):
            raise ConfigError(f"skip_samples holds {list(pair)!r}; expected [first, behind_last] with whole numbers")
        if not 0 <= pair[0] < pair[1]:
            raise ConfigError(f"skip_samples holds {list(pair)!r}; expected 0 ≤ first < behind_last")
    joined: list[tuple[int, int]] = []
    for begin, end in sorted((pair[0], pair[1]) for pair in ranges):
        if joined and begin <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((begin, end))
    return tuple(joined)


def extend(phases: tuple[Phase, ...], first: int, blend: Blend, skips: Skips) -> tuple[Phase, ...]:
    """Begins a new phase at sample ``first``, in which every corpus keeps its count.

    Args:
        phases: The phases so far, over the same corpora; those that would begin later fall away.
        first: Number of the first sample under the new blend.
        blend: The new blend.
        skips: Ranges to step over from now on; what lies before the new phase has had its chance and is left out.
    """
    kept = tuple(phase for phase in phases if phase.first < first)
    if not kept:
        return (Phase(first=first, position=first, blend=blend, base=np.zeros_like(blend.parts), skips=skips),)
    last = kept[-1]
    position = int(last.positions(np.array([first], dtype=np.int64))[0])
    ahead = tuple((max(begin, position), end) for begin, end in skips if end > position)
    return (*kept, Phase(first=first, position=position, blend=blend, base=last.cursors(first), skips=ahead))
