"""MindFormers' own ways to resume, each a real training: the data go on where they are told to, and nowhere twice."""

import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from test_training_runs import NEW_LAYOUT, STEPS, Run, resumed

pytestmark = [pytest.mark.train, pytest.mark.slow]

# Kept checkpoints of the run that is resumed: steps 4 (the middle of the first epoch), 8 (its end), 12.
KEPT, EVERY = 2, 4


@pytest.fixture(scope="module")
def options(corpora: list[str]) -> dict[str, Any]:
    return {"dataset_dir": corpora, "dataset_weights": [0.5, 0.3, 0.2], "seq_length": 32, "seed": 42}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("runs")


def every_four_steps(folder: Path, options: dict[str, Any], kept: int = 9, **changes: Any) -> Run:
    run = Run(folder, options, **changes)
    path = run.folder / "run.yaml"
    text = path.read_text().replace("save_checkpoint_steps: 3", f"save_checkpoint_steps: {EVERY}")
    text = text.replace("save_interleaved_steps: 3", f"save_interleaved_steps: {EVERY}")
    text = text.replace("save_max: 9", f"save_max: {kept}")
    path.write_text(text.replace("keep_checkpoint_max: 9", f"keep_checkpoint_max: {kept}"))
    return run


@pytest.fixture(scope="module")
def whole(folder: Path, options: dict[str, Any]) -> Run:
    run = every_four_steps(folder / "whole", options).train()
    assert run.ended == 0, run.console
    return run


def rows(run: Run, first: int = 1, last: int = STEPS) -> list[str]:
    steps = run.steps()
    return [row for step in range(first, last + 1) for row in steps[step][0]]


@pytest.mark.parametrize("step", [4, 8, 12])
def test_a_named_checkpoint_of_any_place_in_an_epoch_is_gone_on_from(
    folder: Path, options: dict[str, Any], whole: Run, step: int
) -> None:
    name = next(
        (whole.folder / "output" / "checkpoint" / "rank_0").glob(f"*-{(step + 7) // 8}_{(step - 1) % 8 + 1}.ckpt")
    )
    run = Run(folder / f"from {step}", options, **resumed(whole, resume_training=name.name)).train()
    assert run.ended == 0, run.console
    assert run.steps() == {later: whole.steps()[later] for later in range(step + 1, STEPS + 1)}


def test_a_checkpoint_given_as_a_file_is_gone_on_from(folder: Path, options: dict[str, Any], whole: Run) -> None:
    path = next((whole.folder / "output" / "checkpoint" / "rank_0").glob("*-1_4.ckpt"))
    run = Run(folder / "file", options, load_checkpoint=str(path), resume_training=True).train()
    assert run.ended == 0, run.console
    assert "llama_rank_0-1_4.data_state.json" in run.console
    assert run.steps() == {later: whole.steps()[later] for later in range(5, STEPS + 1)}


def test_without_a_state_the_steps_tell_with_a_warning(folder: Path, options: dict[str, Any], whole: Run) -> None:
    bare = folder / "bare"
    shutil.copytree(whole.folder / "output" / "checkpoint", bare, ignore=shutil.ignore_patterns("*.data_state.json"))
    name = next((bare / "rank_0").glob("*-2_4.ckpt")).name
    run = Run(folder / "by step", options, load_checkpoint=str(bare), resume_training=name).train()
    assert run.ended == 0, run.console
    assert "no data state beside the checkpoint of step 12" in run.console
    assert run.steps() == {later: whole.steps()[later] for later in range(13, STEPS + 1)}


def test_steps_to_skip_are_skipped_from_the_beginning(folder: Path, options: dict[str, Any], whole: Run) -> None:
    name = next((whole.folder / "output" / "checkpoint" / "rank_0").glob("*-2_4.ckpt")).name
    run = Run(folder / "skip", options, **resumed(whole, resume_training=name, data_skip_steps=10)).train()
    assert run.ended == 0, run.console
    steps = sorted(run.steps())
    assert rows(run, steps[0], steps[-1]) == rows(whole, 11, 10 + len(steps))


def test_a_skip_that_is_ignored_begins_with_the_first_sample(folder: Path, options: dict[str, Any], whole: Run) -> None:
    name = next((whole.folder / "output" / "checkpoint" / "rank_0").glob("*-2_4.ckpt")).name
    run = Run(folder / "ignored", options, **resumed(whole, resume_training=name, ignore_data_skip=True)).train()
    assert run.ended == 0, run.console
    steps = sorted(run.steps())
    assert rows(run, steps[0], steps[-1]) == rows(whole, 1, len(steps))


@pytest.mark.parametrize("layout", ["legacy", "new"])
def test_states_are_deleted_with_their_checkpoints(folder: Path, options: dict[str, Any], layout: str) -> None:
    changes = NEW_LAYOUT if layout == "new" else {}
    run = every_four_steps(folder / f"kept {layout}", options, kept=KEPT, **changes).train()
    assert run.ended == 0, run.console
    saved = run.folder / "output" / "checkpoint"
    states = list(saved.rglob("*data_state.json"))
    checkpoints = list(saved.glob("iteration_*")) if layout == "new" else list(saved.rglob("*.ckpt"))
    assert len(states) == len(checkpoints) == KEPT


TRAIN = """
import sys
from mindformers import Trainer, build_context
from mindformers.tools.register import MindFormerConfig
import mindformers_megatron.loader
config = MindFormerConfig("run.yaml")
build_context(config)
Trainer(config).train(resume_from_checkpoint=sys.argv[1], resume_training=sys.argv[2])
"""


def test_a_checkpoint_that_only_the_call_names_is_gone_on_from_by_steps_with_a_warning(
    folder: Path, options: dict[str, Any], whole: Run
) -> None:
    died = every_four_steps(folder / "larger steps", options, kill_at=5, runner_config={"batch_size": 5}).train()
    assert died.ended == -signal.SIGKILL
    run = Run(folder / "call", options)
    config = yaml.safe_load((died.folder / "output" / "config.yaml").read_text())
    # As mfm train completed it.
    config["runner_config"]["batch_size"] = 4
    config["callbacks"] = [callback for callback in config["callbacks"] if callback["type"] != "DieAt"]
    config["resume_training"], config["load_checkpoint"] = False, ""
    (run.folder / "run.yaml").write_text(yaml.safe_dump(config))
    done = subprocess.run(
        [sys.executable, "-c", TRAIN, str(died.folder / "output" / "checkpoint"), "llama_rank_0-1_4"],
        cwd=run.folder, capture_output=True, text=True,
    )  # fmt: skip
    console = done.stdout + done.stderr
    assert done.returncode == 0, console
    assert "from a checkpoint that its YAML does not name" in console
    assert "data goes on at sample 20 = 5 steps of 4" in console
