"""What a run has been given, corpus by corpus: exact, from the plan alone, over all ranks."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mindformers_megatron.sampling.grouped_plan import GroupedPlan
from mindformers_megatron.sampling.megatron_course import MegatronCourse
from mindformers_megatron.sampling.plan import SamplePlan
from mindformers_megatron.sampling.schedule import Phase, Schedule

I64 = npt.NDArray[np.int64]
F64 = npt.NDArray[np.float64]

_BLOCK = 1 << 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivered:
    """What one corpus gave to a stretch of the run, beside what was asked of it.

    Attributes:
        name: The corpus.
        samples: Samples it gave.
        share: Their share of all samples.
        asked: The share that the weights in force ask for.
        tokens: Its share of the tokens that count in the loss before any loss mask.
    """

    name: str
    samples: int
    share: float
    asked: float
    tokens: float


def delivered(plan: SamplePlan, begin: int, end: int) -> list[Delivered]:
    """The mix of samples ``begin`` to ``end - 1``, at least one of them, over all ranks; in the order of the names."""
    samples, asked = samples_given(plan, begin, end), samples_asked(plan, begin, end)
    tokens = tokens_given(plan, begin, end)
    return [
        Delivered(
            name=name,
            samples=int(samples[place]),
            share=float(samples[place] / (end - begin)),
            asked=float(asked[place] / (end - begin)),
            tokens=float(tokens[place] / max(1, tokens.sum())),
        )
        for place, name in enumerate(plan.names)
    ]


def samples_given(plan: SamplePlan, begin: int, end: int) -> I64:
    """Samples ``begin`` to ``end - 1`` by corpus: int64[N] in the order of ``plan.names``; without a loop over them.

    What a skip list steps over was given to nobody and does not count.
    """
    if isinstance(plan, GroupedPlan):
        given = np.zeros(len(plan.names), dtype=np.int64)
        for turn in plan.turns(begin, end):
            given[turn.members] += turn.blend.counts(turn.behind) - turn.blend.counts(turn.first)
        return given
    return _given(plan.schedule, end) - _given(plan.schedule, begin)


def samples_asked(plan: SamplePlan, begin: int, end: int) -> F64:
    """How many of these samples the weights in force ask of each corpus: float64[N] in the order of ``plan.names``."""
    asked = np.zeros(len(plan.names))
    if isinstance(plan, GroupedPlan):
        for turn in plan.turns(begin, end):
            asked[turn.members] += turn.blend.shares * (turn.behind - turn.first)
        return asked
    schedule = plan.schedule
    if isinstance(schedule, MegatronCourse):
        return schedule.shares * (end - begin)
    for phase, behind in _stretches(schedule, end):
        asked += phase.blend.shares * max(0, behind - max(begin, phase.first))
    return asked


def tokens_given(plan: SamplePlan, begin: int, end: int) -> I64:
    """Inputs of these samples that count in the loss before any loss mask, by corpus: int64[N].

    Padding does not count. Computes what every sample is made from: some millions of samples a second. With
    ``shard_files`` every input counts of those groups whose files are not open here.
    """
    tokens = np.zeros(len(plan.names), dtype=np.int64)
    if isinstance(plan, GroupedPlan):
        for turn in plan.turns(begin, end):
            if turn.plan is None:
                samples = turn.blend.counts(turn.behind) - turn.blend.counts(turn.first)
                tokens[turn.members] += samples * plan.seq_length
            else:
                tokens[turn.members] += tokens_given(turn.plan, turn.first, turn.behind)
        return tokens
    for first in range(begin, end, _BLOCK):
        numbers, cursors = plan.locate(np.arange(first, min(first + _BLOCK, end), dtype=np.int64))
        for number in np.unique(numbers).tolist():
            pieces = plan.pieces(plan.names[number], cursors[numbers == number])
            tokens[number] += pieces.counted.sum()
    return tokens


def _given(schedule: Schedule | MegatronCourse, sample: int) -> I64:
    if isinstance(schedule, MegatronCourse):
        return schedule.cursors(sample)
    given = np.zeros_like(schedule.phases[0].base)
    for phase, behind in _stretches(schedule, sample):
        given += phase.cursors(behind) - phase.base - _stepped_over(phase, behind)
    return given


def _stretches(schedule: Schedule, end: int) -> list[tuple[Phase, int]]:
    """The phases that have begun before sample ``end``, each with the sample behind its last one."""
    firsts = [phase.first for phase in schedule.phases[1:]]
    return [
        (phase, min(behind, end))
        for phase, behind in zip(schedule.phases, [*firsts, end], strict=True)
        if phase.first < end
    ]


def _stepped_over(phase: Phase, behind: int) -> I64:
    position = int(phase.positions(np.array([behind], dtype=np.int64))[0])
    over = np.zeros_like(phase.base)
    for begin, end in phase.skips:
        if end <= position:
            over += phase.blend.counts(end - phase.position) - phase.blend.counts(begin - phase.position)
    return over
