"""What to look at first: statements about the data, those that somebody should decide about before the rest."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from mindformers_megatron.report.prepared import DECONTAMINATE, Prepared
from mindformers_megatron.report.run_mix import CorpusMix, RunMix

# Repeating data up to about four times is nearly as good as new data (Muennighoff et al., 2023).
MANY_EPOCHS = 4.0
_MUCH_LOST = 0.5
_LARGE_CLUSTER = 100


@dataclass(frozen=True, slots=True)
class Finding:
    """A statement.

    Attributes:
        check: Whether somebody should decide about it.
        words: Key of its words.
        section: Of the page, where its numbers stand.
        values: Filled into the words.
    """

    check: bool
    words: str
    section: str
    values: dict[str, Any]


def findings(prepared: Prepared | None, mix: RunMix | None) -> list[Finding]:
    """All statements, those to check first."""
    found = [*(_of_mix(mix) if mix else ()), *(_of_preparation(prepared) if prepared else ())]
    return sorted(found, key=lambda finding: not finding.check)


def _of_mix(mix: RunMix) -> Iterator[Finding]:
    samples = mix.reached or mix.planned
    # A mix of whole samples is off by less than its number of corpora.
    allowed = len(mix.so_far) / samples
    off = [row for row in mix.so_far if abs(row.given - row.asked) > allowed]
    for row in off:
        shares = {"given": percent(row.given), "asked": percent(row.asked)}
        yield Finding(True, "find.mix_off", "mix", {"name": row.name, "samples": samples, **shares})
    if not off:
        worst = max((abs(row.given - row.asked) for row in mix.so_far), default=0.0)
        # What is less than a billionth is the rounding of shares, not of samples.
        words = "find.mix" if worst > 1e-9 else "find.mix_exact"
        yield Finding(False, words, "mix", {"samples": samples, "off": f"{100 * worst:.2g}"})
    if mix.recorded is not None:
        count, wrong = len(mix.recorded.stretches), mix.recorded.off_plan
        if wrong:
            yield Finding(True, "find.recorded_off", "mix", {"off": wrong, "count": count})
        else:
            yield Finding(False, "find.recorded", "mix", {"count": count, "rows": mix.recorded.checked_rows})
    yield from _of_epochs(mix.whole)


def _of_epochs(whole: tuple[CorpusMix, ...]) -> Iterator[Finding]:
    epochs = {row.name: row.epochs for row in whole if row.epochs is not None}
    for name, times in epochs.items():
        if times > MANY_EPOCHS:
            yield Finding(True, "find.repeats", "mix", {"name": name, "epochs": f"{times:.1f}"})
    for row in whole:
        if row.epochs is not None and not row.samples:
            yield Finding(True, "find.unreached", "mix", {"name": row.name})
    if epochs and max(epochs.values()) <= MANY_EPOCHS:
        yield Finding(False, "find.no_repeats", "mix", {"epochs": f"{max(epochs.values()):.2g}"})


def _of_preparation(prepared: Prepared) -> Iterator[Finding]:
    if sum(prepared.rejects.values()):
        yield Finding(True, "find.rejects", "funnel", {"count": sum(prepared.rejects.values())})
    if prepared.steps:
        yield _kept(prepared)
    for source in prepared.sources:
        yield from _lost(prepared, source)
    yield from _of_evaluation(prepared)
    largest = max((cluster.size for cluster in prepared.clusters), default=0)
    if largest >= _LARGE_CLUSTER:
        yield Finding(True, "find.cluster", "duplicates", {"size": largest})


def _of_evaluation(prepared: Prepared) -> Iterator[Finding]:
    names = [step.name for step in prepared.global_steps if step.kind == DECONTAMINATE]
    searches = [step for step in prepared.steps if step.name in names]
    dropped = sum(step.total("documents_in") - step.total("documents_out") for step in searches)
    cut = sum(step.total("changed") for step in searches)
    for one in prepared.sets:
        words = "find.whole_items" if one.whole else "find.part_items" if one.found else "find.clean"
        left_in = bool(one.found) and not dropped and not cut
        yield Finding(left_in, words, "contamination", {"name": one.name, "count": one.whole or one.found})
    if dropped or cut:
        yield Finding(False, "find.taken_out", "contamination", {"dropped": dropped, "cut": cut})


def _kept(prepared: Prepared) -> Finding:
    every, kept = prepared.steps[0].total("documents_in"), prepared.steps[-1].total("documents_out")
    lost = {step.name: step.total("documents_in") - step.total("documents_out") for step in prepared.steps}
    worst = max(lost, key=lambda name: lost[name])
    if not lost[worst] or not every:
        return Finding(False, "find.kept_all", "funnel", {"all": every})
    values = {"kept": kept, "all": every, "share": percent(kept / every), "step": worst, "lost": lost[worst]}
    return Finding(kept < _MUCH_LOST * every, "find.kept", "funnel", values)


def _lost(prepared: Prepared, source: str) -> Iterator[Finding]:
    counts = [(step.name, step.sources[source]) for step in prepared.steps if source in step.sources]
    every = counts[0][1].documents_in
    lost: Counter[str] = Counter()
    for name, one in counts:
        lost[name] += one.documents_in - one.documents_out
    step, most = lost.most_common(1)[0]
    if len(prepared.sources) > 1 and lost.total() > _MUCH_LOST * every:
        values = {"name": source, "share": percent(lost.total() / every), "step": step, "lost": most}
        yield Finding(True, "find.source_lost", "funnel", values)


def percent(share: float) -> str:
    """A share as text: more digits the smaller it is."""
    points = 100 * share
    if points in (0, 100):
        return f"{points:.0f} %"
    digits = 1 if abs(points) >= 10 else 2 if abs(points) >= 1 else 3
    return f"{points:.{digits}f} %"
