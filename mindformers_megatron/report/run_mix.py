"""The mix over a run: what was asked, what the plan gives, and what the run itself wrote down."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from mindformers_megatron.errors import DataError
from mindformers_megatron.report.left_file import read_left_file
from mindformers_megatron.sampling.delivered import samples_asked, samples_given, tokens_given
from mindformers_megatron.sampling.plan import SamplePlan
from mindformers_megatron.sampling.table import TableRow

STRETCHES = 48
# In shorter stretches, shares say more about whole samples than about the mix.
_LEAST_STRETCH = 200
# Which tokens count is computed sample by sample; of longer runs, evenly spaced stretches are looked at.
_MOST_COUNTED = 1 << 20
_BLOCKS = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class CorpusMix:
    """One corpus over a stretch of the run.

    Attributes:
        name: Its name.
        path: Its prefix; None for one that the run had before.
        tokens: Tokens it holds; None likewise.
        asked: The share of samples asked of it.
        given: The share of samples it gave.
        samples: The samples it gave.
        counted: Its share of the tokens that count in the loss before any loss mask; None where that is not known.
        epochs: How often it was gone through since the start of the run; None for one that the run had before.
    """

    name: str
    path: str | None
    tokens: int | None
    asked: float
    given: float
    samples: int
    counted: float | None
    epochs: float | None


@dataclass(frozen=True, slots=True)
class Stretch:
    """Shares in samples ``begin`` to ``end - 1``, by corpus in the order of the names."""

    begin: int
    end: int
    asked: tuple[float, ...]
    given: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Recorded:
    """What a run wrote down while it trained.

    Attributes:
        stretches: Its reports, in order; where a resumed run wrote some steps again, the later ones.
        checked_rows: Rows of real batches that were compared with the plan.
        off_plan: Reports whose counts are not those of the plan.
    """

    stretches: tuple[Stretch, ...]
    checked_rows: int
    off_plan: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RunMix:
    """The mix over a run.

    Attributes:
        planned: Samples of the whole run.
        reached: Samples given so far, as the last data state or report says; 0: it has not begun, or left nothing.
        so_far: The corpora over what was reached; over the whole run, if nothing was.
        whole: The corpora over the whole run.
        stretches: The run in evenly long stretches, to its end or to where it is, whichever is later.
        recorded: None where the run wrote nothing down.
    """

    planned: int
    reached: int
    so_far: tuple[CorpusMix, ...]
    whole: tuple[CorpusMix, ...]
    stretches: tuple[Stretch, ...]
    recorded: Recorded | None


def run_mix(plan: SamplePlan, planned: int, reached: int, records: Iterable[Mapping[str, Any]] = ()) -> RunMix:
    """Computes the mix of a run from its plan.

    Args:
        plan: The plan.
        planned: Samples of the whole run, at least 1.
        reached: Samples that are known to have been given.
        records: What ``MegatronMixMonitor`` wrote; see ``read_records``.
    """
    recorded = _recorded(plan, records)
    if recorded is not None:
        reached = max(reached, recorded.stretches[-1].end)
    planned = planned if plan.end is None else min(planned, plan.end)
    end = max(planned, reached)
    edges = np.unique(np.linspace(0, end, min(STRETCHES, -(-end // _LEAST_STRETCH)) + 1).astype(np.int64)).tolist()
    whole = corpus_mix(plan, planned)
    return RunMix(
        planned=planned,
        reached=reached,
        so_far=corpus_mix(plan, reached) if reached else whole,
        whole=whole,
        stretches=tuple(_stretch(plan, first, last) for first, last in pairwise(edges)),
        recorded=recorded,
    )


def corpus_mix(plan: SamplePlan, samples: int) -> tuple[CorpusMix, ...]:
    """The corpora over the first samples of a run, at least one."""
    table = _table(plan, samples)
    asked, given = samples_asked(plan, 0, samples), samples_given(plan, 0, samples)
    counted = _counted(plan, samples)
    return tuple(
        CorpusMix(
            name=name,
            path=table[name].path if name in table else None,
            tokens=table[name].tokens if name in table else None,
            asked=float(asked[place] / samples),
            given=float(given[place] / samples),
            samples=int(given[place]),
            counted=None if counted is None else counted[place],
            epochs=table[name].epochs if name in table else None,
        )
        for place, name in enumerate(plan.names)
    )


def _table(plan: SamplePlan, samples: int) -> dict[str, TableRow]:
    """What is in force, by corpus; the parts of one that ``shard_files`` divides taken together."""
    table: dict[str, TableRow] = {}
    for row in plan.table(samples):
        other = table.get(row.name)
        if other is None:
            table[row.name] = row
        else:
            tokens = row.tokens + other.tokens
            # In epochs of the whole corpus; the parts are cut at documents, so that one may be a little ahead.
            epochs = (row.tokens * row.epochs + other.tokens * other.epochs) / tokens
            table[row.name] = replace(row, tokens=tokens, epochs=epochs)
    return table


def read_records(path: Path) -> list[dict[str, Any]]:
    """Reads the JSON lines that ``MegatronMixMonitor`` wrote; a last line without an end is left out.

    Raises:
        DataError: One line, for a file that cannot be read or is none of these.
    """
    records = []
    for number, line in enumerate(read_left_file(path, "log of a mix").split(b"\n")[:-1], 1):
        try:
            record = json.loads(line)
            begin, end = record["samples"]
            shares = [float(row[name]) for row in record["corpora"].values() for name in ("share", "asked", "samples")]
            valid = 0 <= int(begin) < int(end) and all(share >= 0 for share in shares)
        except (AttributeError, KeyError, TypeError, ValueError, RecursionError):
            valid = False
        if not valid:
            raise DataError(
                f"{path}: line {number} is no report of MegatronMixMonitor; name its own file, or remove it"
            )
        records.append(record)
    return records


def _stretch(plan: SamplePlan, begin: int, end: int) -> Stretch:
    size = end - begin
    asked, given = samples_asked(plan, begin, end) / size, samples_given(plan, begin, end) / size
    return Stretch(begin, end, tuple(asked.tolist()), tuple(given.tolist()))


def _recorded(plan: SamplePlan, records: Iterable[Mapping[str, Any]]) -> Recorded | None:
    kept: list[tuple[Stretch, int, bool]] = []
    for record in records:
        begin, end = map(int, record["samples"])
        while kept and kept[-1][0].begin >= begin:
            kept.pop()
        rows = record["corpora"]
        counts = [int(rows[name]["samples"]) if name in rows else 0 for name in plan.names]
        shares = {
            what: tuple(float(rows.get(name, {}).get(what, 0)) for name in plan.names) for what in ("asked", "share")
        }
        on_plan = counts == samples_given(plan, begin, end).tolist()
        checked = record.get("checked_rows")
        stretch = Stretch(begin, end, shares["asked"], shares["share"])
        kept.append((stretch, checked if isinstance(checked, int) else 0, on_plan))
    if not kept:
        return None
    return Recorded(
        tuple(stretch for stretch, _, _ in kept),
        sum(checked for _, checked, _ in kept),
        sum(not on_plan for _, _, on_plan in kept),
    )


def _counted(plan: SamplePlan, samples: int) -> list[float] | None:
    if set(plan.names) != set(plan.corpora):
        return None
    if samples <= _MOST_COUNTED:
        counts = tokens_given(plan, 0, samples)
    else:
        size = _MOST_COUNTED // _BLOCKS
        begins = np.linspace(0, samples - size, _BLOCKS).astype(np.int64).tolist()
        counts = np.sum([tokens_given(plan, begin, begin + size) for begin in begins], axis=0)
    return [float(share) for share in (counts / max(1, counts.sum())).tolist()]
