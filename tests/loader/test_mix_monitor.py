"""The mix that steps were given is reported every so many steps, checked against the rows, and warned of where off."""

import json
import logging

import numpy as np
import pytest
from networks import model_of

from mindformers_megatron.errors import ConfigError
from mindformers_megatron.format.provenance import DocsWriter

pytestmark = pytest.mark.train


def train(options, pipeline=lambda dataset: dataset, state=None, **monitor):
    from mindformers_megatron.loader import BlendedMegatronDataLoader, MegatronMixMonitor

    loader = BlendedMegatronDataLoader(**options, column_names=["input_ids", "labels"], micro_batch_size=4)
    if state is not None:
        loader.load_state_dict(state)
    model_of().train(1, pipeline(loader.batch(4)), [MegatronMixMonitor(**monitor)], dataset_sink_mode=False)
    return loader


def read(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.fixture
def warnings(caplog):
    caplog.set_level(logging.WARNING, "mindformers_megatron")
    return lambda: sorted({record.getMessage() for record in caplog.records if "mix_monitor" in record.name})


def test_each_report_covers_the_steps_since_the_last_and_the_end_covers_the_rest(blend, tmp_path, warnings):
    path = tmp_path / "new" / "mix.jsonl"
    plan = train(blend, interval=4, path=str(path)).plan
    records = read(path)
    assert [(record["step"], record["samples"]) for record in records] == [(4, [0, 16]), (8, [16, 32]), (10, [32, 40])]
    for record in records:
        corpus, _ = plan.locate(np.arange(*record["samples"]))
        found = [record["corpora"][name]["samples"] for name in plan.names]
        assert found == np.bincount(corpus, minlength=3).tolist()
        assert [round(record["corpora"][name]["asked"], 9) for name in plan.names] == [0.5, 0.3, 0.2]
        assert (record["checked_rows"], record["sources"]) == (4, {})
    assert records[-1]["corpora"]["wiki"]["so_far"] == 0.5
    assert warnings() == []


def test_files_divided_among_ranks_are_reported_together(blend, tmp_path, warnings):
    path = tmp_path / "mix.jsonl"
    plan = train({**blend, "shard_files": 2}, interval=5, path=str(path)).plan
    records = read(path)
    assert [record["samples"] for record in records] == [[0, 20], [20, 40]]
    for record in records:
        corpus, _ = plan.locate(np.arange(*record["samples"]))
        found = [record["corpora"][name]["samples"] for name in plan.names]
        assert found == np.bincount(corpus, minlength=3).tolist()
    assert warnings() == []


def test_a_resumed_run_reports_from_where_it_went_on(blend, tmp_path):
    from mindformers_megatron import SamplePlan

    path = tmp_path / "mix.jsonl"
    state = json.loads(SamplePlan.build(**blend, columns=["input_ids", "labels"]).state(100).to_json())
    train(blend, state=state, interval=10, path=str(path))
    assert read(path)[0]["samples"] == [100, 140]


def test_rows_that_something_else_has_shifted_are_noticed(blend, warnings):
    train(blend, lambda dataset: dataset.skip(1), interval=5)
    assert len(warnings()) == 2 and all("is not samples" in warning for warning in warnings())


def test_samples_that_are_filled_differently_make_the_share_of_tokens_drift(make_corpus, warnings):
    corpora = [make_corpus("full", [[7] * 33] * 40), make_corpus("half", [[7] * 18] * 40)]
    train({"dataset_dir": corpora, "dataset_weights": [1, 1], "order": "document", "seq_length": 32, "num_samples": 80})
    assert [warning.split(" is ")[0] for warning in warnings()] == [
        "data mix drifts at step 20: the share of full in tokens (weight_by: tokens divides those)",
        "data mix drifts at step 20: the share of half in tokens (weight_by: tokens divides those)",
    ]


def test_sources_are_counted_where_provenance_exists(make_corpus, tmp_path):
    prefix = make_corpus("web", [[7] * 30, [8] * 10] * 40)
    with DocsWriter(prefix) as writer:
        for name in ("news", "forum") * 40:
            writer.add([None], source=name, file="f", lines=[1], byte_offsets=[0], metas=[None])
    path = tmp_path / "mix.jsonl"
    train({"dataset_dir": [prefix], "seq_length": 40}, interval=100, path=str(path))
    shares = read(path)[-1]["sources"]
    assert set(shares) == {"news", "forum"} and shares["news"] == pytest.approx(0.75, abs=0.01)


@pytest.mark.parametrize("options", [{"interval": 0}, {"bound": 2}, {"source_samples": -1}, {"interval": "5"}])
def test_bad_options_are_one_line(options):
    from mindformers_megatron.loader import MegatronMixMonitor

    with pytest.raises(ConfigError, match=f"MegatronMixMonitor: {next(iter(options))} is"):
        MegatronMixMonitor(**options)
