"""Killed at any moment, again and again, while a checkpoint is written too: the same samples and losses, to the end.

One command both starts a run and resumes it. A watcher outside kills all of its processes with SIGKILL: some
milliseconds after a step drawn by lot, or as soon as anything changes in the folder of the checkpoints.
"""

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
from msrun import msrun_command
from test_training_runs import NEW_LAYOUT, ROOT, Run, digest

from mindformers_megatron.sampling.plan import SamplePlan

pytestmark = [pytest.mark.train, pytest.mark.slow]

EPOCHS, BATCH, EPOCH_STEPS = 2, 4, 24
STEPS = EPOCHS * EPOCH_STEPS
KILLS = 7


@pytest.fixture(scope="module")
def options(corpora: list[str]) -> dict[str, Any]:
    return {"dataset_dir": corpora, "dataset_weights": [0.5, 0.3, 0.2], "seq_length": 32, "seed": 42}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("kills")


class Killed(Run):
    """A run whose one command is started over and over; ``starts`` has what each start has logged."""

    def __init__(self, folder: Path, options: dict[str, Any], seed: int, **changes: Any) -> None:
        checkpoints = str(folder / "output" / "checkpoint")
        own: dict[str, Any] = {"load_checkpoint": checkpoints, "resume_training": True}
        if "checkpoint" in changes:
            own = {"resume_training": True, "checkpoint": {**changes["checkpoint"], "load_path": checkpoints}}
        super().__init__(folder, options, data={"num_samples": EPOCH_STEPS * BATCH}, **{**changes, **own})
        self.random = random.Random(seed)
        self.starts: list[list[dict[str, Any]]] = []
        self.moments: list[str] = []

    def start(self, ranks: int, kill: bool, *overrides: str) -> int:
        """Starts the run, kills it if told to, and returns how it ended."""
        logged = {path: path.stat().st_size for path in self.logs()}
        command = [str(ROOT / "tools" / "train.py"), "--config", "run.yaml", *overrides]
        command = msrun_command(command, ranks) if ranks > 1 else [sys.executable, *command]
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        with (self.folder / "console").open("wb") as console:
            process = subprocess.Popen(
                command, cwd=self.folder, env={**os.environ, "PATH": path, "LOCAL_DEFAULT_PATH": "output"},
                stdout=console, stderr=subprocess.STDOUT, start_new_session=True,
            )  # fmt: skip
            if kill:
                self.wait_for_moment(process, logged)
                kill_all(process.pid)
            process.wait()
        self.console = (self.folder / "console").read_text(errors="replace")
        for log in sorted((self.folder / "msrun").glob("worker_*.log")):
            self.console += log.read_text(errors="replace")
        self.starts.append([self.read_log(path, logged.get(path, 0)) for path in self.logs()])
        return process.returncode

    def wait_for_moment(self, process: subprocess.Popen[bytes], logged: dict[Path, int]) -> None:
        """Returns at a moment drawn by lot, or when the run has ended before it."""
        main = self.folder / "steps.jsonl"
        offset = logged.get(main, 0)
        while_saving = self.random.random() < 0.5
        target, delay = self.random.randint(1, 6), self.random.uniform(0, 0.05)
        self.moments.append("while a checkpoint is written" if while_saving else f"{target} steps and {delay:.3f} s on")
        moment: Callable[[], bool]
        if while_saving:
            before = self.saved()

            def moment() -> bool:
                return self.saved() != before
        else:

            def moment() -> bool:
                return main.exists() and len(self.read_log(main, offset)) >= target

        while process.poll() is None and not moment():
            time.sleep(0.001)
        if not while_saving:
            time.sleep(delay)

    def saved(self) -> set[tuple[str, int]]:
        found = set()
        for path in (self.folder / "output" / "checkpoint").rglob("*"):
            try:
                found.add((str(path), path.stat().st_size))
            except FileNotFoundError:
                continue
        return found

    def logs(self) -> list[Path]:
        return sorted(self.folder.glob("steps*.jsonl"))

    @staticmethod
    def read_log(path: Path, offset: int) -> list[dict[str, Any]]:
        # The first line may complete nothing but the remains of one that a kill cut short.
        lines = path.read_bytes()[offset:].split(b"\n")[:-1]
        records = []
        for line in lines:
            try:
                records.append(json.loads(line))
            except ValueError:
                continue
        return records


def kill_all(pid: int) -> None:
    """Kills a process and all that it has started, wherever it has put them: msrun's workers are in other groups."""
    try:
        parent = psutil.Process(pid)
        family = [*parent.children(recursive=True), parent]
    except psutil.NoSuchProcess:
        return
    for process in family:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    psutil.wait_procs(family[:-1])


def rows_of(ranks: list[dict[str, Any]]) -> list[str]:
    """Digests of the rows of one step, in the order of the global batch."""
    return [digest(row) for rows in zip(*(rank["input_ids"] for rank in ranks), strict=True) for row in rows]


def steps_of(start: list[list[dict[str, Any]]], ranks: int) -> dict[int, list[dict[str, Any]]]:
    """By step, what each rank has logged in one start; only steps that all ranks have logged."""
    by_rank = [{record["step"]: record for record in log} for log in start[:ranks]]
    if len(by_rank) < ranks:
        return {}
    return {step: [log[step] for log in by_rank] for step in by_rank[0] if all(step in log for log in by_rank)}


@pytest.fixture(scope="module")
def undisturbed(folder: Path, options: dict[str, Any]) -> Callable[[int], dict[int, list[dict[str, Any]]]]:
    """What each step logs in a run on 1 or 2 ranks that nobody disturbs."""
    known: dict[int, dict[int, list[dict[str, Any]]]] = {}

    def of(ranks: int) -> dict[int, list[dict[str, Any]]]:
        if ranks not in known:
            run = Killed(folder / f"undisturbed on {ranks}", options, 0, **parallel(ranks))
            assert run.start(ranks, kill=False) == 0, run.console
            known[ranks] = steps_of(run.starts[0], ranks)
            assert sorted(known[ranks]) == list(range(1, STEPS + 1))
        return known[ranks]

    return of


def parallel(ranks: int) -> dict[str, Any]:
    return {"use_parallel": True, "runner_config": {"batch_size": BATCH // ranks}} if ranks > 1 else {}


@pytest.mark.parametrize(
    "layout, ranks",
    [("legacy", 1), ("new", 1), ("legacy", 2)],
    ids=["legacy, 1 rank", "new, 1 rank", "legacy, 2 ranks"],
)
def test_the_same_samples_and_losses_after_any_kill(
    folder: Path, options: dict[str, Any], undisturbed: Any, layout: str, ranks: int
) -> None:
    expected = undisturbed(ranks)
    changes = {**(NEW_LAYOUT if layout == "new" else {}), **parallel(ranks)}
    run = Killed(folder / f"killed {layout} {ranks}", options, seed=ranks + len(layout), **changes)
    for kill in range(KILLS):
        ended = run.start(ranks, kill=True)
        assert ended in (-signal.SIGKILL, 0), (kill, run.moments, run.console[-5000:])
    assert run.start(ranks, kill=False) == 0, run.console[-5000:]
    seen: dict[int, Any] = {}
    unlogged: set[int] = set()
    for start in run.starts:
        steps = steps_of(start, ranks)
        for step, records in steps.items():
            assert records == expected[step], (step, run.moments)
        if steps and min(steps) > max(seen, default=0) + 1:
            # Killed behind the checkpoint of a step and before its line in the log. Its samples have been learnt from,
            # else the losses from here on were others.
            unlogged.add(min(steps) - 1)
        seen |= steps
    assert set(seen) | unlogged == set(range(1, STEPS + 1))
    print(f"{layout}, {ranks}: killed {run.moments}")


def test_other_ranks_and_a_doubled_batch_go_on_by_the_datas_account(
    folder: Path, options: dict[str, Any], undisturbed: Any
) -> None:
    run = Killed(folder / "changing", options, seed=5, **parallel(2))
    plan = SamplePlan.build(**options)
    number = {
        digest(row.tolist()): place for place, row in enumerate(plan.read(np.arange(2 * STEPS * BATCH))["input_ids"])
    }
    one = ["use_parallel=False", f"runner_config.batch_size={BATCH}"]
    doubled = [f"runner_config.batch_size={BATCH}"]
    expected = undisturbed(1)
    delivered, step_before = 0, BATCH
    for ranks, overrides, kills in ((2, [], 2), (1, one, 2), (2, [], 2), (2, doubled, 2)):
        for _ in range(kills):
            assert run.start(ranks, True, *overrides) in (-signal.SIGKILL, 0), (run.moments, run.console[-5000:])
            steps = steps_of(run.starts[-1], ranks)
            taken = [number[row] for step in sorted(steps) for row in rows_of(steps[step])]
            if not taken:
                continue
            # Row by row in the order of the stream, from a sample that has its state, and leaving none out.
            assert taken == list(range(taken[0], taken[0] + len(taken)))
            # A step of the start before may have been saved, and killed before it was logged.
            assert taken[0] <= delivered + step_before
            delivered, step_before = taken[-1] + 1, 2 * BATCH if overrides is doubled else BATCH
            if overrides is not doubled:
                for step, records in steps.items():
                    loss = np.mean([record["loss"] for record in records])
                    assert np.isclose(loss, expected[step][0]["loss"], rtol=1e-4), step
    assert run.start(2, False, *doubled) == 0, run.console[-5000:]
    steps = steps_of(run.starts[-1], 2)
    taken = [number[row] for step in sorted(steps) for row in rows_of(steps[step])]
    assert taken == list(range(taken[0], taken[0] + len(taken))) and taken[0] <= delivered + 2 * BATCH
