"""`mfm demo` as people run it: real text, real training, a real kill."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from mindformers_megatron.demo.folder import DemoFolder
from mindformers_megatron.demo.training import train
from mindformers_megatron.sampling.state import DataState

pytestmark = pytest.mark.train

STEPS = 12


def demo(*options: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "mindformers_megatron.cli", "demo", *options]
    return subprocess.run(command, capture_output=True, text=True, timeout=600)


def test_a_killed_run_goes_on_exactly_with_the_shares_asked_for(tmp_path: Path) -> None:
    done = demo("--dir", str(tmp_path / "demo"), "--steps", str(STEPS), "--json")
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["proved"]
    assert [step["step"] for step in result["steps"]] == list(range(1, STEPS + 1))
    # Killed between the checkpoints of steps 5 and 10, as soon as step 7 was seen.
    assert result["resumed_after"] == 5
    assert 7 <= result["killed_after"] < 10
    assert [step["step"] for step in result["steps"] if step["resumed"] is not None] == list(range(6, STEPS + 1))
    assert len({step["straight"] for step in result["steps"]}) == STEPS
    for share in result["shares"]:
        assert abs(share["resumed"]["rows"] - share["asked"] * STEPS * 8) < 1

    folder = DemoFolder(tmp_path / "demo")
    state = DataState.load(folder.interrupted.checkpoints / f"iteration_{STEPS:08d}" / "data_state.json")
    assert state.consumed_samples == STEPS * 8
    # Between the processes, nothing but the checkpoint was there to tell the second one where the first had been.
    assert str(folder.interrupted.config) in done.stderr


def test_a_training_that_fails_is_shown_with_the_end_of_its_log(tmp_path: Path) -> None:
    run = DemoFolder.claim(tmp_path / "demo").straight
    run.config.write_text("train_dataset: {data_loader: {type: BlendedMegatronDataLoader, dataset_dir: nowhere}}\n")
    log = run.folder / "train.log"
    with pytest.raises(ChildProcessError, match="failed with exit code 2") as raised:
        train(run, log, lambda step, loss: None)
    assert str(log) in str(raised.value)
    assert "seq_length is missing" in str(raised.value).splitlines()[-1]


def test_a_folder_of_other_things_is_refused_before_any_work(tmp_path: Path) -> None:
    (tmp_path / "novel.txt").write_text("mine")
    done = demo("--dir", str(tmp_path))
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "is not empty, and no demo made it" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["novel.txt"]
