"""``mfm trace``: the documents of a step, and the steps of a document, against a walk over everything."""

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from pairs import GOLDEN

from mindformers_megatron import IndexedDataset, SamplePlan
from mindformers_megatron.cli.main import run
from mindformers_megatron.errors import ConfigError
from mindformers_megatron.format.provenance import DocsWriter
from mindformers_megatron.report.run import COLUMNS
from mindformers_megatron.report.steps import StepMap
from mindformers_megatron.sampling.grouped_plan import open_plan
from mindformers_megatron.sampling.spec import PlanSpec
from mindformers_megatron.sampling.state import DataState
from mindformers_megatron.settings.history import Stretch

ROWS, RANKS = 4, 2
GLOBAL_BATCH = ROWS * RANKS


@pytest.fixture
def run_folder(make_corpus: Any, tmp_path: Path) -> Path:
    rng = np.random.default_rng(2)
    paths = {name: make_corpus(name, rng.integers(0, 40, 60).tolist()) for name in ("wiki", "code")}
    for name, prefix in paths.items():
        count = IndexedDataset(prefix).num_documents
        with DocsWriter(prefix) as writer:
            writer.add(
                [f"{name}-{number}" for number in range(count)],
                source=name,
                file=f"/raw/{name}.jsonl",
                lines=list(range(1, count + 1)),
                byte_offsets=[0] * count,
                metas=[None] * count,
            )
    config = {
        "use_parallel": True,
        "output_dir": str(tmp_path / "output"),
        "parallel": {"parallel_mode": 1},
        "parallel_config": {"data_parallel": RANKS},
        "runner_config": {"batch_size": ROWS},
        "train_dataset": {
            "data_loader": {
                "type": "BlendedMegatronDataLoader",
                "dataset_dir": list(paths.values()),
                "dataset_weights": [0.7, 0.3],
                "seq_length": 24,
                "loss_mask": "boundary",
                "reset_position_ids": True,
            }
        },
    }
    (tmp_path / "run.yaml").write_text(yaml.safe_dump(config))
    return tmp_path


def plan_of(folder: Path) -> SamplePlan:
    loader = yaml.safe_load((folder / "run.yaml").read_text())["train_dataset"]["data_loader"]
    del loader["type"]
    return SamplePlan.build(**loader)


def save_state(folder: Path, state: DataState, step: int, history: list[list[int]], name: str | None = None) -> Path:
    target = folder / "output" / "checkpoint" / (name or f"iteration_{step:08d}")
    target.mkdir(parents=True)
    size = history[-1][2]
    body = {**json.loads(state.to_json()), "step": step, "global_batch_size": size, "history": history}
    (target / "data_state.json").write_text(json.dumps(body))
    return target / "data_state.json"


def trace(folder: Path, capsys: pytest.CaptureFixture[str], *words: str) -> list[dict[str, Any]]:
    assert run(["trace", "--config", str(folder / "run.yaml"), "--json", *words]) == 0
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_a_step_is_traced_to_its_rows_and_documents(run_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan = plan_of(run_folder)
    for step in (1, 7, 1000):
        samples = trace(run_folder, capsys, "--step", str(step))
        rows = plan.read(np.arange((step - 1) * GLOBAL_BATCH, step * GLOBAL_BATCH))
        assert [sample["sample"] for sample in samples] == list(range((step - 1) * GLOBAL_BATCH, step * GLOBAL_BATCH))
        assert [sample["rank"] for sample in samples] == [0, 1] * ROWS
        for place, sample in enumerate(samples):
            assert sample["tokens"] == [*rows["input_ids"][place].tolist(), int(rows["labels"][place, -1])]
            assert sample["loss_mask"] == rows["loss_mask"][place].tolist()
            dataset = IndexedDataset(sample["path"])
            reached = 0
            for part in sample["documents"]:
                first, behind = part["columns"]
                skipped, end, total = part["tokens_of_document"]
                document = dataset[_sequence(dataset, part["document"])]
                assert first == reached
                assert total == len(document)
                assert document[skipped:end].tolist() == sample["tokens"][first:behind]
                assert part["origin"]["id"] == f"{sample['corpus']}-{part['document']}"
                assert part["origin"]["line"] == part["document"] + 1
                reached = behind
            assert reached == 25


def _sequence(dataset: IndexedDataset, document: int) -> int:
    return int(dataset.index.document_indices[document])


def test_one_rank_gets_its_own_rows_only(run_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    mine = trace(run_folder, capsys, "--step", "3:4", "--rank", "1")
    assert [sample["sample"] for sample in mine] == list(range(17, 32, 2))
    assert [sample["row"] for sample in mine] == [0, 1, 2, 3] * 2


def test_a_document_is_traced_to_its_steps(run_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    everything = trace(run_folder, capsys, "--step", "1:40")
    for document in (3, 17, 44):
        (found,) = trace(run_folder, capsys, "--document", f"wiki-{document}", "--until", "40")
        expected = [
            {name: sample[name] for name in ("step", "rank", "row", "sample")}
            for sample in everything
            if sample["corpus"] == "wiki" and any(part["document"] == document for part in sample["documents"])
        ]
        assert found["seen"] == expected
        assert trace(run_folder, capsys, "--document", f"wiki:{document}", "--until", "40") == [found]


def test_documents_that_no_earlier_step_saw_are_named(run_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def seen(first: int, last: int) -> set[tuple[str, int]]:
        samples = trace(run_folder, capsys, "--step", f"{first}:{last}")
        return {(sample["corpus"], part["document"]) for sample in samples for part in sample["documents"]}

    new = trace(run_folder, capsys, "--step", "4:6", "--new")
    assert {(one["corpus"], one["document"]) for one in new} == seen(4, 6) - seen(1, 3)


def test_a_resumed_run_of_other_weights_ranks_and_batch_size_is_traced_through_its_states(
    run_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = plan_of(run_folder)
    history = [[0, 0, GLOBAL_BATCH, RANKS]]
    save_state(run_folder, plan.state(80), 10, history)
    config = yaml.safe_load((run_folder / "run.yaml").read_text())
    config["train_dataset"]["data_loader"]["dataset_weights"] = [0.2, 0.8]
    config["runner_config"]["batch_size"] = 16
    config["use_parallel"] = False
    (run_folder / "run.yaml").write_text(yaml.safe_dump(config))
    # The YAML says how it goes on, and the next state how it went: ten steps of 8 samples, then steps of 16 from 6 on.
    before = trace(run_folder, capsys, "--step", "9:13")
    later = plan_of(run_folder).resumed(plan.state(80), "continue")
    save_state(run_folder, later.state(112), 7, [*history, [80, 5, 16, 1]])
    samples = trace(run_folder, capsys, "--step", "9:13")
    assert samples == before
    assert [sample["sample"] for sample in samples] == [*range(64, 80), *range(128, 208)]
    assert [sample["step"] for sample in samples] == [
        *[9] * 8,
        *[10] * 8,
        *(n for n in range(9, 14) for _ in range(16)),
    ]
    assert [sample["rank"] for sample in samples] == [*[0, 1] * 8, *[0] * 80]
    names = [sample["corpus"] for sample in samples]
    numbers, _ = later.locate(np.array([sample["sample"] for sample in samples]))
    assert names == [later.names[number] for number in numbers]
    assert abs(names[16:].count("code") - 0.8 * 80) < 2

    assert run(["trace", "--config", str(run_folder / "run.yaml"), "--step", "6"]) == 0
    shown = capsys.readouterr()
    assert "2 steps were counted as step 6, of samples 40 to 47 and 80 to 95" in shown.err
    assert shown.out.count("step 6, rank") == 24


def test_steps_and_samples_lead_to_each_other_over_changes_of_batch_size() -> None:
    # 10 steps of 8; from there steps of 16, the 6th first; from sample 112 on steps of 4, the 29th first.
    steps = StepMap((Stretch(0, 0, 8, 2), Stretch(80, 5, 16, 4), Stretch(112, 28, 4, 1)))
    seen = []
    for step in (*range(1, 8), 8, 9, 10, *range(29, 40)):
        places = steps.places(step)
        assert [steps.place_of(place.sample) for place in places] == places
        assert {place.step for place in places} == {step}
        seen += [place.sample for place in places]
    assert sorted(seen) == list(range(156))
    assert [len(times) for times in steps.times(6)] == [8, 16]
    assert [place.rank for place in steps.places(6)] == [*[0, 1] * 4, *[0, 1, 2, 3] * 4]
    assert [steps.behind(step) for step in (1, 5, 6, 7, 20, 29)] == [8, 40, 96, 112, 112, 116]
    for step, says in ((0, "count from 1"), (11, "step 7, of 16, was followed by step 29, of 4"), (28, "no step 28")):
        with pytest.raises(ConfigError, match=says):
            steps.places(step)
    with pytest.raises(ConfigError, match="the run began with step 6, of 16 samples"):
        StepMap((Stretch(80, 5, 16, 4),)).places(5)
    with pytest.raises(ConfigError, match="the run began with sample 80"):
        StepMap((Stretch(80, 5, 16, 4),)).place_of(79)


def test_a_run_that_was_taken_back_and_changed_is_traced_as_it_went_on(
    run_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan, history = plan_of(run_folder), [[0, 0, GLOBAL_BATCH, RANKS]]
    given_up = [save_state(run_folder, plan.state(step * GLOBAL_BATCH), step, history) for step in (10, 20, 30)]
    config = yaml.safe_load((run_folder / "run.yaml").read_text())
    config["train_dataset"]["data_loader"]["dataset_weights"] = [0.1, 0.9]
    (run_folder / "run.yaml").write_text(yaml.safe_dump(config))
    changed = plan_of(run_folder).resumed(plan.state(80), "continue")
    newest = save_state(run_folder, changed.state(120), 15, history)
    for age, path in enumerate((newest, *given_up)):
        os.utime(path, (1e9 - age, 1e9 - age))
    assert run(["trace", "--config", str(run_folder / "run.yaml"), "--step", "9:18", "--json"]) == 0
    shown = capsys.readouterr()
    assert f"{newest} (--state)" in shown.err
    samples = [json.loads(line) for line in shown.out.splitlines()]
    numbers, cursors = changed.locate(np.arange(64, 144))
    assert [(one["corpus"], one["cursor"]) for one in samples] == [
        (changed.names[number], cursor) for number, cursor in zip(numbers, cursors, strict=True)
    ]


def test_files_divided_among_groups_are_traced_in_both_directions(
    run_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = yaml.safe_load((run_folder / "run.yaml").read_text())
    config["train_dataset"]["data_loader"] |= {"shard_files": True, "num_samples": 400}
    (run_folder / "run.yaml").write_text(yaml.safe_dump(config))
    options = config["train_dataset"]["data_loader"] | {"shard_files": RANKS, "columns": list(COLUMNS)}
    plan = open_plan(PlanSpec.from_options({name: value for name, value in options.items() if name != "type"}))
    samples = trace(run_folder, capsys, "--step", "3:60")
    rows = plan.read(np.arange(16, 480))
    for place, sample in enumerate(samples):
        assert sample["tokens"] == [*rows["input_ids"][place].tolist(), int(rows["labels"][place, -1])]
        dataset = IndexedDataset(sample["path"])
        for part in sample["documents"]:
            first, behind = part["columns"]
            skipped, end, _ = part["tokens_of_document"]
            document = dataset[_sequence(dataset, part["document"])]
            assert document[skipped:end].tolist() == sample["tokens"][first:behind]
    everything = trace(run_folder, capsys, "--step", "1:60")
    for name, document in (("wiki", 3), ("wiki", 42), ("code", 7)):
        (found,) = trace(run_folder, capsys, "--document", f"{name}:{document}", "--until", "60")
        assert [place["sample"] for place in found["seen"]] == [
            sample["sample"]
            for sample in everything
            if sample["corpus"] == name and document in [part["document"] for part in sample["documents"]]
        ]
        assert len(found["seen"]) > 1


def test_a_document_is_found_in_every_turn_of_an_order_that_begins_again(
    run_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = yaml.safe_load((run_folder / "run.yaml").read_text())
    config["train_dataset"]["data_loader"] |= {"order": "megatron", "num_samples": 60, "repeat_epochs": True}
    (run_folder / "run.yaml").write_text(yaml.safe_dump(config))
    everything = trace(run_folder, capsys, "--step", "1:30")
    # Seven whole global batches of eight, again and again.
    assert [sample["tokens"] for sample in everything[:56]] == [sample["tokens"] for sample in everything[112:168]]
    (found,) = trace(run_folder, capsys, "--document", "wiki-5", "--until", "30")
    assert found["seen"] == [
        {name: sample[name] for name in ("step", "rank", "row", "sample")}
        for sample in everything
        if sample["corpus"] == "wiki" and 5 in [part["document"] for part in sample["documents"]]
    ]
    assert len({(place["step"] - 1) // 7 for place in found["seen"]}) == 5
    (on_one,) = trace(run_folder, capsys, "--document", "wiki-5", "--until", "30", "--rank", "1")
    assert on_one["seen"] == [place for place in found["seen"] if place["rank"] == 1]


def test_the_output_folder_stands_for_the_yaml_that_training_left_in_it(
    run_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = trace(run_folder, capsys, "--step", "2")
    (run_folder / "output").mkdir()
    (run_folder / "run.yaml").rename(run_folder / "output" / "config.yaml")
    assert run(["trace", "--config", str(run_folder / "output"), "--step", "2", "--json"]) == 0
    assert [json.loads(line) for line in capsys.readouterr().out.splitlines()] == asked


def test_text_is_shown_with_its_documents(run_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tokenizer = str(GOLDEN / "preprocess" / "tokenizer")
    assert run(["trace", "--config", str(run_folder / "run.yaml"), "--sample", "0", "--tokenizer", tokenizer]) == 0
    shown = capsys.readouterr().out.splitlines()
    assert shown[0].startswith("step 1, rank 0, row 0: sample 0, wiki epoch 0")
    assert any("/raw/wiki.jsonl:" in line for line in shown)
    assert any(line.startswith("    | ") for line in shown)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--step", "0"], "steps count from 1"),
        (["--step", "x"], "--step is 'x'"),
        (["--step", "5:3"], "--step is '5:3'"),
        (["--step", "1", "--rank", "2"], "--rank is 2; expected 0 to 1"),
        (["--document", "nobody", "--until", "3"], "is in no docs.parquet"),
        (["--document", "wiki:99999", "--until", "3"], "document 99999 asked for"),
        (["--document", "wiki:1"], "--until"),
        (["--document", "wiki:1", "--until", "0"], "--until is 0"),
        (["--document", "wiki:1", "--until", "3", "--new"], "--new is about steps"),
        (["--step", "1", "--until", "3"], "--until goes with --document"),
        (["--step", "1", "--ranks", "0"], "--ranks is 0"),
        (["--step", "1", "--state", "/nowhere"], "no data state there"),
        (["--step", "1", "--tokenizer", "/nowhere"], "no tokenizer.json"),
    ],
)
def test_wrong_questions_are_one_line(
    run_folder: Path, words: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["trace", "--config", str(run_folder / "run.yaml"), *words]) == 2
    error = capsys.readouterr().err
    assert says in error
    assert error.count("\n") == 1
