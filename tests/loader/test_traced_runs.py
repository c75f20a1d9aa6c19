"""Real MindFormers runs through kills, resumes and changes: `trace` names exactly what the model was given.

Each course is one folder in which tools/train.py is started again and again, as a user would. ``MegatronStepLog``
writes down the columns of every batch that the network was given; that is the truth.
"""

import json
import random
import signal
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from test_training_runs import NEW_LAYOUT, ROOT, start_training

from mindformers_megatron import IndexedDataset
from mindformers_megatron.cli.main import run
from mindformers_megatron.report.run import COLUMNS, Run, open_run
from mindformers_megatron.report.trace import (
    TracedSample,
    document_extent,
    find_document,
    places_of_document,
    trace_samples,
)

pytestmark = [pytest.mark.train, pytest.mark.slow]

PAIRS = 200
SAVED_EVERY = 10


@dataclass
class Given:
    """What one start gave the model: by (step, rank) the rows of each column, and the last step that counts."""

    rows: dict[tuple[int, int], dict[str, list[list[int]]]]
    kept_until: int | None = None


@dataclass
class Course:
    """A run in a folder of its own, with all its starts so far."""

    folder: Path
    data: dict[str, Any]
    layout: dict[str, Any] = field(default_factory=dict)
    starts: list[Given] = field(default_factory=list)

    @property
    def config(self) -> Path:
        return self.folder / "run.yaml"

    def start(self, *, epochs: int, kill_at: int | None = None, rows: int = 4, ranks: int = 1, **data: Any) -> Given:
        """Trains to the end, or to a SIGKILL at the end of step ``kill_at``; goes on from the last checkpoint."""
        self.folder.mkdir(exist_ok=True)
        self.data |= data
        log = f"given_{len(self.starts)}.jsonl"
        config = yaml.safe_load((ROOT / "configs" / "pretrain_llama_cpu.yaml").read_text())
        config["train_dataset"]["data_loader"] = {"type": "BlendedMegatronDataLoader", **self.data}
        config["model"]["model_config"]["seq_length"] = self.data["seq_length"]
        config["runner_config"] |= {"epochs": epochs, "batch_size": rows}
        config["use_parallel"] = ranks > 1
        checkpoints = {**config["callbacks"][1], "save_checkpoint_steps": SAVED_EVERY, "keep_checkpoint_max": 20}
        config["callbacks"] = [checkpoints, {"type": "MegatronStepLog", "path": log, "columns": list(COLUMNS)}]
        if kill_at:
            config["callbacks"].append({"type": "DieAt", "auto_register": "die_at.DieAt", "step": kill_at})
        config |= self.layout
        if self.starts:
            self.starts[-1].kept_until = self._saved_step()
            self._resume(config)
        self.config.write_text(yaml.safe_dump(config))
        ended, console = start_training(self.folder, ranks)
        assert ended == 0 or (kill_at and (ended == -signal.SIGKILL or ranks > 1)), console
        given = Given(_rows(self.folder / log, ranks))
        assert kill_at is None or max(step for step, _ in given.rows) in (kill_at - 1, kill_at), console
        self.starts.append(given)
        return given

    def _resume(self, config: dict[str, Any]) -> None:
        if self.layout:
            config["checkpoint"] = {**config["checkpoint"], "load_path": "output/checkpoint"}
        else:
            config |= {"load_checkpoint": "output/checkpoint", "resume_training": True}

    def _saved_step(self) -> int:
        states = (self.folder / "output").rglob("*data_state.json")
        newest = max(states, key=lambda path: path.stat().st_mtime_ns)
        return int(json.loads(newest.read_text())["step"])

    def in_force(self) -> dict[tuple[int, int], dict[str, list[list[int]]]]:
        """What the model that stands at the end was given, through all starts; steps counted alike in their order."""
        whole: dict[tuple[int, int], dict[str, list[list[int]]]] = {}
        for start in self.starts:
            for key, rows in start.rows.items():
                if start.kept_until is None or key[0] <= start.kept_until:
                    known = whole.setdefault(key, {name: [] for name in COLUMNS})
                    whole[key] = {name: known[name] + rows[name] for name in COLUMNS}
        return whole


def _rows(log: Path, ranks: int) -> dict[tuple[int, int], dict[str, list[list[int]]]]:
    found = {}
    for rank in range(ranks):
        path = log if rank == 0 else log.with_suffix(f".rank_{rank}.jsonl")
        for line in path.read_text().splitlines():
            record = json.loads(line)
            found[record["step"], rank] = {name: record[name] for name in COLUMNS}
    return found


def assert_traced(
    opened: Run, step: int, rank: int, given: dict[str, list[list[int]]], *, last_time: bool = False
) -> None:
    """``last_time``: of steps that were counted by one number, the last one only."""
    within = opened.steps.times(step)[-1 if last_time else 0 :]
    places = [
        place
        for place in opened.steps.places(step)
        if place.rank == rank and any(place.sample in samples for samples in within)
    ]
    traced = list(trace_samples(opened.plan, np.array([place.sample for place in places])))
    assert [one.tokens[:-1].tolist() for one in traced] == given["input_ids"]
    assert [one.tokens[1:].tolist() for one in traced] == given["labels"]
    assert [one.columns["loss_mask"].tolist() for one in traced] == given["loss_mask"]
    assert [one.columns["position_ids"].tolist() for one in traced] == given["position_ids"]
    for one in traced:
        assert_documents(one)


def assert_documents(sample: TracedSample) -> None:
    """The documents named are where the tokens come from, and boundaries are where masks and positions show them."""
    dataset, reached = IndexedDataset(sample.path), 0
    for part in sample.parts:
        assert part.column == reached
        begin, end = document_extent(dataset, part.document)
        assert part.total == end - begin
        own = dataset.tokens(begin + part.skipped, part.length)
        assert own.tolist() == sample.tokens[part.column : part.column + part.length].tolist()
        reached += part.length
        if part.column < sample.tokens.size - 1:
            assert sample.columns["position_ids"][part.column] == 0
        if 0 < part.column < sample.tokens.size:
            assert sample.columns["loss_mask"][part.column - 1] == 0
    assert reached == sample.tokens.size


def assert_all_traced(course: Course, given: dict[tuple[int, int], dict[str, list[list[int]]]]) -> None:
    """Traces all that the start has been given which the course stands at."""
    opened = open_run(course.config, [f"output_dir={course.folder / 'output'}"])
    for (step, rank), rows in given.items():
        assert_traced(opened, step, rank, rows, last_time=True)


@pytest.fixture(scope="module")
def options(corpora: list[str]) -> dict[str, Any]:
    names = dict(zip(("wiki", "code", "chat"), corpora, strict=True))
    return {
        "names": names,
        "common": {"seq_length": 32, "seed": 42, "loss_mask": "boundary", "reset_position_ids": True},
    }


@pytest.fixture(scope="module")
def courses(tmp_path_factory: pytest.TempPathFactory, options: dict[str, Any]) -> dict[str, Course]:
    """All runs; what each start gave is compared with the trace of that moment, before the next one changes it."""
    folder, numbers = tmp_path_factory.mktemp("courses"), count()
    names, common = options["names"], options["common"]

    def course(layout: dict[str, Any] | None = None, **data: Any) -> Course:
        return Course(folder / str(next(numbers)), {**common, "num_samples": 160, **data}, layout or {})

    two = {"dataset_dir": [names["wiki"], names["code"]], "dataset_weights": [0.5, 0.5]}
    three = {"dataset_dir": list(names.values()), "dataset_weights": [0.2, 0.3, 0.5]}
    made = {}

    killed = made["killed, resumed, changed"] = course(**two)
    for start in (
        {"epochs": 1, "kill_at": 14},
        {"epochs": 1, "kill_at": 35},
        {"epochs": 2, "rows": 6, "kill_at": 38, **three, "skip_samples": [[130, 150]], "on_change": "continue"},
        {"epochs": 2, "rows": 4},
    ):
        assert_all_traced(killed, killed.start(**start).rows)

    ranks = made["two ranks, one, two"] = course(**three)
    for start in (
        {"epochs": 1, "rows": 2, "ranks": 2, "kill_at": 25},
        {"epochs": 1, "rows": 5, "kill_at": 29},
        {"epochs": 2, "rows": 3, "ranks": 2, "dataset_weights": [0.6, 0.2, 0.2], "on_change": "continue"},
    ):
        assert_all_traced(ranks, ranks.start(**start).rows)

    layout = {**NEW_LAYOUT, "checkpoint": {**NEW_LAYOUT["checkpoint"], "save_interleaved_steps": SAVED_EVERY}}
    megatron = made["Megatron's order, again and again"] = course(layout, **three, order="megatron", repeat_epochs=True)
    for start in ({"epochs": 2, "kill_at": 55}, {"epochs": 2}):
        assert_all_traced(megatron, megatron.start(**start).rows)

    groups = made["files divided among ranks"] = course(**three, shard_files=True)
    assert_all_traced(groups, groups.start(epochs=1, rows=2, ranks=2).rows)
    return made


def test_of_200_random_pairs_of_real_runs_each_is_traced_to_what_the_model_was_given(
    courses: dict[str, Course],
) -> None:
    pairs = [(course, key, rows) for course in courses.values() for key, rows in sorted(course.in_force().items())]
    opened = {
        id(course): open_run(course.config, [f"output_dir={course.folder}/output"]) for course in courses.values()
    }
    for course, (step, rank), rows in random.Random(7).sample(pairs, PAIRS):
        assert_traced(opened[id(course)], step, rank, rows)
    # Steps that were counted by one number are in it together.
    assert any(len(run.steps.times(step)) > 1 for run in opened.values() for step in range(1, 40))


@pytest.mark.parametrize("seed", range(3))
def test_the_command_says_the_same(
    courses: dict[str, Course], seed: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for course in courses.values():
        monkeypatch.chdir(course.folder)
        given = course.in_force()
        step, rank = random.Random(seed).choice(sorted(given))
        assert run(["trace", "--config", "run.yaml", "--step", str(step), "--rank", str(rank), "--json"]) == 0
        samples = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        assert [sample["tokens"][:-1] for sample in samples] == given[step, rank]["input_ids"]
        assert [sample["tokens"][1:] for sample in samples] == given[step, rank]["labels"]
        for name in ("loss_mask", "position_ids"):
            assert [sample[name] for sample in samples] == given[step, rank][name]


def test_a_document_is_found_in_all_that_the_model_was_given(courses: dict[str, Course]) -> None:
    for course in courses.values():
        opened = open_run(course.config, [f"output_dir={course.folder}/output"])
        given = course.in_force()
        ((name, document),) = find_document(opened.plan, "code:11")
        places = places_of_document(opened.plan, opened.steps, name, document, max(step for step, _ in given))
        seen = {(place.step, place.rank) for place in places}
        dataset = opened.plan.corpora[name].dataset
        begin, end = document_extent(dataset, document)
        text = dataset.tokens(begin, end - begin).tolist()
        # Four tokens in a row stand in no other place of these random corpora.
        marks = {tuple(text[place : place + 4]) for place in range(len(text) - 3)}
        truth = {
            key
            for key, rows in given.items()
            for inputs, labels in zip(rows["input_ids"], rows["labels"], strict=True)
            for row in [[*inputs, labels[-1]]]
            if any(tuple(row[place : place + 4]) in marks for place in range(len(row) - 3))
        }
        assert truth and truth <= seen
        # The others hold one to three tokens of it.
        assert len(seen - truth) <= 0.2 * len(seen)
