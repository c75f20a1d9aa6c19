"""Real MindFormers trainings on CPU, killed and resumed, compared with one that nobody disturbed.

Each run is tools/train.py, alone or under msrun, in processes of its own: two epochs of 8 steps with 4 samples each;
checkpoints at every third step. A run that is to be killed dies by SIGKILL at the end of a certain step.
"""

import hashlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from msrun import msrun

pytestmark = pytest.mark.train

ROOT = Path(__file__).parents[2]
STEPS = 16
NEW_LAYOUT = {
    "use_legacy_format": False,
    "load_ckpt_format": "safetensors",
    "checkpoint": {
        "save_path": "output/checkpoint",
        "prefix": "llama",
        "save_max": 9,
        "save_interleaved_steps": 3,
        "no_save_optim": False,
        "no_load_optim": False,
        "load_path": "",
    },
}


class Run:
    """One training in a folder of its own: what it was told, how it ended, and what each step was given."""

    def __init__(self, folder, blend, kill_at=None, **changes):
        config = yaml.safe_load((ROOT / "configs" / "pretrain_llama_cpu.yaml").read_text())
        config["runner_config"]["epochs"] = 2
        data = {"type": "BlendedMegatronDataLoader", **blend, "num_samples": 32}
        config["train_dataset"]["data_loader"] = data
        config["model"]["model_config"]["seq_length"] = blend["seq_length"]
        checkpoints = {**config["callbacks"][1], "save_checkpoint_steps": 3, "keep_checkpoint_max": 9}
        steps = {"type": "MegatronStepLog", "path": "steps.jsonl", "columns": ["input_ids"]}
        death = {"type": "DieAt", "auto_register": "die_at.DieAt", "step": kill_at}
        config["callbacks"] = [{"type": "MFLossMonitor"}, checkpoints, steps, *([death] if kill_at else [])]
        data |= changes.pop("data", {})
        for key in {"runner_config", "train_dataset"} & changes.keys():
            config[key] |= changes.pop(key)
        self.folder = folder
        self.folder.mkdir()
        (folder / "run.yaml").write_text(yaml.safe_dump({**config, **changes}))
        self.ended = None

    def train(self, ranks=1):
        """Trains to the end, or to a SIGKILL at the end of the step ``kill_at``."""
        self.ended, self.console = start_training(self.folder, ranks)
        return self

    def steps(self):
        """By step: the rows in the order of the global batch, and the loss on each rank."""
        logs = [self.folder / "steps.jsonl", self.folder / "steps.rank_1.jsonl"]
        ranks = [[json.loads(line) for line in log.read_text().splitlines()] for log in logs if log.exists()]
        return {
            step[0]["step"]: (
                [digest(row) for rows in zip(*(rank["input_ids"] for rank in step), strict=True) for row in rows],
                [rank["loss"] for rank in step],
            )
            for step in zip(*ranks, strict=False)
        }


def start_training(folder, ranks=1):
    """Trains as ``run.yaml`` in a folder says; returns the exit code and all that was printed."""
    plugins = str(Path(__file__).parent / "plugins")
    command = [str(ROOT / "tools" / "train.py"), "--config", "run.yaml", "--register-path", plugins]
    if ranks > 1:
        return msrun(command, ranks, folder, {"LOCAL_DEFAULT_PATH": "output"})
    done = subprocess.run(
        [sys.executable, *command],
        cwd=folder,
        env={**os.environ, "LOCAL_DEFAULT_PATH": "output"},
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    return done.returncode, done.stdout


def digest(row):
    return hashlib.sha256(json.dumps(row).encode()).hexdigest()[:12]


def resumed(run, **how):
    return {"load_checkpoint": str(run.folder / "output" / "checkpoint"), "resume_training": True, **how}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("runs")


@pytest.fixture(scope="module")
def options(corpora):
    return {"dataset_dir": corpora, "dataset_weights": [0.5, 0.3, 0.2], "seq_length": 32, "seed": 42}


@pytest.fixture(scope="module")
def undisturbed(folder, options):
    run = Run(folder / "undisturbed", options).train()
    assert run.ended == 0, run.console
    return run


@pytest.fixture(scope="module")
def killed(folder, options):
    """Killed between the checkpoint of step 6 and that of step 9."""
    run = Run(folder / "killed", options, kill_at=7).train()
    assert run.ended == -signal.SIGKILL
    return run


def test_a_second_epoch_does_not_repeat_the_first(undisturbed):
    rows = [row for step in range(1, STEPS + 1) for row in undisturbed.steps()[step][0]]
    assert len(set(rows)) == len(rows) == STEPS * 4


def test_what_is_in_force_is_shown_and_kept(undisturbed, options):
    assert undisturbed.console.count("data plan ") == 1
    assert all(path in undisturbed.console for path in options["dataset_dir"])
    kept = yaml.safe_load((undisturbed.folder / "output" / "config.yaml").read_text())
    assert kept["train_dataset"]["data_loader"]["dataset_weights"] == [0.5, 0.3, 0.2]
    assert {path.name for path in undisturbed.folder.iterdir()} == {"run.yaml", "steps.jsonl", "output"}


def test_a_killed_run_goes_on_with_the_same_samples_and_losses(folder, options, undisturbed, killed):
    run = Run(folder / "resumed", options, **resumed(killed)).train()
    assert run.ended == 0, run.console
    assert "llama_rank_0-1_6.data_state.json" in run.console
    assert run.steps() == {step: undisturbed.steps()[step] for step in range(7, STEPS + 1)}


def test_so_does_one_killed_in_its_second_epoch_in_the_new_checkpoint_layout(folder, options, undisturbed):
    died = Run(folder / "died", options, kill_at=11, **NEW_LAYOUT).train()
    assert died.ended == -signal.SIGKILL
    loaded = {"checkpoint": {**NEW_LAYOUT["checkpoint"], "load_path": str(died.folder / "output" / "checkpoint")}}
    run = Run(folder / "went on", options, **{**NEW_LAYOUT, **loaded}).train()
    assert run.ended == 0, run.console
    assert run.steps() == {step: undisturbed.steps()[step] for step in range(10, STEPS + 1)}


def test_two_ranks_then_one_then_two_again_see_the_samples_of_one(folder, options, undisturbed):
    expected = {step: rows for step, (rows, _) in undisturbed.steps().items()}
    two = {"use_parallel": True, "runner_config": {"batch_size": 2}}

    first = Run(folder / "two ranks", options, kill_at=5, **two).train(ranks=2)
    assert "2 ranks read one data plan" in first.console
    # The other rank may be killed before it has logged the step.
    seen = {step: rows for step, (rows, _) in first.steps().items()}
    assert set(seen) >= {1, 2, 3, 4} and seen.items() <= expected.items()

    second = Run(folder / "one rank", options, kill_at=11, **resumed(first)).train()
    assert {step: rows for step, (rows, _) in second.steps().items()} == {step: expected[step] for step in range(4, 12)}

    third = Run(folder / "two again", options, **two, **resumed(second)).train(ranks=2)
    assert third.ended == 0, third.console
    assert {step: rows for step, (rows, _) in third.steps().items()} == {
        step: expected[step] for step in range(10, STEPS + 1)
    }


def test_a_run_that_has_come_to_its_end_has_nothing_left_to_do(folder, options, undisturbed):
    run = Run(folder / "again", options, **resumed(undisturbed)).train()
    assert run.ended == 0, run.console
    assert "nothing left to do: the checkpoint is that of step 16, and 2 epochs end there" in run.console
    assert "Traceback" not in run.console
    assert not (run.folder / "steps.jsonl").exists()


def test_a_batch_of_another_size_goes_on_with_the_next_sample(folder, options, undisturbed, killed):
    run = Run(folder / "larger batch", options, **resumed(killed), runner_config={"batch_size": 5}).train()
    assert run.ended == 0, run.console
    rows = [row for step in sorted(run.steps()) for row in run.steps()[step][0]]
    expected = [row for step in range(7, STEPS + 1) for row in undisturbed.steps()[step][0]]
    assert rows[: len(expected)] == expected[: len(rows)]


def test_another_plan_is_refused_in_one_line(folder, options, killed):
    run = Run(folder / "another plan", options, **resumed(killed), data={"seed": 43}).train()
    assert run.ended == 2
    last = run.console.splitlines()[-1]
    assert last.startswith("mfm train: ") and "seed = 42, this run has 43" in last
    assert not (run.folder / "steps.jsonl").exists()


def test_the_yaml_of_a_practitioner_trains_as_it_stands(folder, options):
    run = Run(folder / "practitioner", options)
    config = yaml.safe_load((run.folder / "run.yaml").read_text())
    written = """
train_dataset:
  data_loader:
    type: BlendedMegatronDataLoader
    dataset_dir:
      - "/data/pretrain/wiki.bin"
      - "/data/pretrain/code.bin"
      - "/data/pretrain/chat.bin"
    dataset_weights:
      - 0.5
      - 0.3
      - 0.2
    seq_length: 2048
    micro_batch_size: 1
    shuffle: true
    num_parallel_workers: 8
    prefetch_size: 16
    seed: 42
""".replace("/data/pretrain", str(Path(options["dataset_dir"][0]).parent))
    del config["train_dataset_task"], config["runner_config"]["batch_size"]
    config["model"]["model_config"] |= {"seq_length": 2048, "batch_size": 1}
    config["runner_config"]["epochs"] = 1
    (run.folder / "run.yaml").write_text(yaml.safe_dump({**config, **yaml.safe_load(written)}))
    run.train()
    assert run.ended == 0, run.console
    assert len(run.steps()) == sum(Path(path).stat().st_size // 2 for path in options["dataset_dir"]) // 2048
