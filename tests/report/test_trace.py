"""``mfm trace``: the documents of a step, and the steps of a document, against a walk over everything."""

import json
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
from mindformers_megatron.report.steps import Anchor, StepMap
from mindformers_megatron.sampling.state import DataState

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


def save_state(folder: Path, state: DataState, step: int, global_batch_size: int = GLOBAL_BATCH) -> None:
    target = folder / "output" / "checkpoint" / f"iteration_{step:08d}"
    target.mkdir(parents=True)
    body = {**json.loads(state.to_json()), "step": step, "global_batch_size": global_batch_size}
    (target / "data_state.json").write_text(json.dumps(body))


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


def test_a_resumed_run_of_other_weights_and_batch_size_is_traced_through_its_states(
    run_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = plan_of(run_folder)
    save_state(run_folder, plan.state(10 * GLOBAL_BATCH), 10)
    config = yaml.safe_load((run_folder / "run.yaml").read_text())
    config["train_dataset"]["data_loader"]["dataset_weights"] = [0.2, 0.8]
    config["runner_config"]["batch_size"] = 2 * ROWS
    (run_folder / "run.yaml").write_text(yaml.safe_dump(config))
    later = plan_of(run_folder).resumed(plan.state(10 * GLOBAL_BATCH), "continue")
    save_state(run_folder, later.state(14 * GLOBAL_BATCH), 12, 2 * GLOBAL_BATCH)
    samples = trace(run_folder, capsys, "--step", "9:13")
    # Ten steps of 8 samples, then steps of 16.
    assert [sample["sample"] for sample in samples] == list(range(64, 128))
    assert [sample["step"] for sample in samples] == [9] * 8 + [10] * 8 + [11] * 16 + [12] * 16 + [13] * 16
    names = [sample["corpus"] for sample in samples]
    numbers, _ = later.locate(np.arange(64, 128))
    assert names == [later.names[number] for number in numbers]
    assert abs(names[16:].count("code") - 0.8 * 48) < 2


def test_steps_and_samples_lead_to_each_other_over_changes_of_batch_size() -> None:
    steps = StepMap((Anchor(0, 0, 8), Anchor(10, 80, 8), Anchor(12, 112, 16), Anchor(20, 144, 4)), 6)
    expected = 0
    for step in range(1, 40):
        samples = steps.samples_of(step).tolist()
        assert samples[0] == expected
        assert {steps.step_of(sample) for sample in samples} == {step}
        expected = samples[-1] + 1
    with pytest.raises(ConfigError, match="count from 1"):
        steps.samples_of(0)


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
