"""The mix over a run: the plan's own numbers, and what the run wrote down held against them."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mindformers_megatron import SamplePlan
from mindformers_megatron.errors import DataError
from mindformers_megatron.report.findings import findings
from mindformers_megatron.report.html.line_chart import line_charts
from mindformers_megatron.report.run_mix import read_records, run_mix
from mindformers_megatron.sampling.delivered import delivered
from mindformers_megatron.sampling.grouped_plan import GroupedPlan, open_plan
from mindformers_megatron.sampling.spec import PlanSpec


@pytest.fixture
def plan(blend: dict[str, Any]) -> SamplePlan:
    return SamplePlan.build(**blend)


def record(plan: SamplePlan, begin: int, end: int) -> dict[str, Any]:
    rows = delivered(plan, begin, end)
    corpora = {row.name: {"asked": row.asked, "share": row.share, "samples": row.samples} for row in rows}
    return {"step": end // 8, "samples": [begin, end], "corpora": corpora, "checked_rows": 4}


def test_stretches_add_up_to_the_samples_of_the_run(plan: SamplePlan) -> None:
    mix = run_mix(plan, 10_000, 0)
    given = np.sum([np.array(one.given) * (one.end - one.begin) for one in mix.stretches], axis=0)
    numbers, _ = plan.locate(np.arange(10_000))
    assert np.allclose(given, np.bincount(numbers))
    assert [row.samples for row in mix.whole] == np.bincount(numbers).tolist()
    assert mix.so_far is mix.whole


def test_what_the_run_reached_is_told_apart_from_the_whole(plan: SamplePlan) -> None:
    mix = run_mix(plan, 10_000, 400)
    assert sum(row.samples for row in mix.so_far) == 400
    assert sum(row.samples for row in mix.whole) == 10_000
    assert all(now.epochs < later.epochs for now, later in zip(mix.so_far, mix.whole, strict=True))
    assert all(chart.here == pytest.approx(600 * 0.04) for chart in line_charts(mix))


def test_files_divided_among_groups_are_shown_as_the_corpora_they_are(blend: dict[str, Any]) -> None:
    plan = open_plan(PlanSpec.from_options({**blend, "shard_files": 4}))
    assert isinstance(plan, GroupedPlan)
    plan.open(range(4))
    mix, whole = run_mix(plan, 10_000, 400), run_mix(SamplePlan.build(**blend), 10_000, 400)
    for ours, theirs in zip(mix.whole, whole.whole, strict=True):
        assert (ours.name, ours.path, ours.tokens) == (theirs.name, theirs.path, theirs.tokens)
        assert ours.given == pytest.approx(ours.asked, abs=1e-3)
        assert ours.asked == pytest.approx(theirs.asked)
        assert ours.epochs == pytest.approx(theirs.epochs, rel=0.02)
    numbers, _ = plan.locate(np.arange(400))
    assert [row.samples for row in mix.so_far] == np.bincount(numbers).tolist()


def test_a_run_beyond_its_plan_is_shown_to_where_it_is(plan: SamplePlan) -> None:
    assert run_mix(plan, 100, 400).stretches[-1].end == 400


def test_a_log_that_agrees_is_said_to_and_one_that_does_not_is_to_be_checked(plan: SamplePlan) -> None:
    records = [record(plan, 0, 400), record(plan, 400, 800)]
    mix = run_mix(plan, 10_000, 0, records)
    assert mix.reached == 800
    assert mix.recorded is not None
    assert (mix.recorded.off_plan, mix.recorded.checked_rows) == (0, 8)
    assert "find.recorded" in [finding.words for finding in findings(None, mix) if not finding.check]
    records[1]["corpora"]["wiki"]["samples"] += 40
    mix = run_mix(plan, 10_000, 0, records)
    assert "find.recorded_off" in [finding.words for finding in findings(None, mix) if finding.check]


def test_steps_that_a_resumed_run_reports_again_count_once(plan: SamplePlan) -> None:
    records = [record(plan, 0, 400), record(plan, 400, 800), record(plan, 400, 600), record(plan, 600, 1000)]
    mix = run_mix(plan, 10_000, 0, records)
    assert mix.recorded is not None
    assert [(one.begin, one.end) for one in mix.recorded.stretches] == [(0, 400), (400, 600), (600, 1000)]


def test_an_unfinished_last_line_of_a_log_is_left_out(plan: SamplePlan, tmp_path: Path) -> None:
    log = tmp_path / "mix.jsonl"
    log.write_text(json.dumps(record(plan, 0, 400)) + "\n" + '{"step": 5, "samp')
    assert len(read_records(log)) == 1


@pytest.mark.parametrize("line", ["{}", "[]", "nonsense", '{"samples": [5, 2], "corpora": {}}', "[" * 100_000])
def test_another_file_is_no_log(line: str, tmp_path: Path) -> None:
    log = tmp_path / "mix.jsonl"
    log.write_text(line + "\n")
    with pytest.raises(DataError, match="line 1 is no report of MegatronMixMonitor"):
        read_records(log)


def test_a_corpus_repeated_many_times_is_to_be_checked(plan: SamplePlan) -> None:
    mix = run_mix(plan, 100_000, 0)
    repeated = {row.name for row in mix.whole if row.epochs is not None and row.epochs > 4}
    named = {finding.values["name"] for finding in findings(None, mix) if finding.words == "find.repeats"}
    assert repeated
    assert named == repeated
