"""Training runs as processes of their own: started, watched, and killed where asked."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path

from mindformers_megatron.demo.folder import RunFiles

# A step of the demo's model takes well under a second, and the compilation before the first one well under a minute.
_PATIENCE_SECONDS = 300.0
_LOOK_EVERY_SECONDS = 0.01
_LINES_SHOWN = 15

OnStep = Callable[[int, float], None]


def train(run: RunFiles, log: Path, on_step: OnStep, *, kill_after: int | None = None) -> None:
    """Runs ``mfm train`` on a run's configuration until it ends, or until it has logged a certain step.

    Args:
        run: the run.
        log: where its output goes.
        on_step: called with number and loss of each step, as it is logged.
        kill_after: SIGKILL the run when this step has been logged, and return.

    Raises:
        ChildProcessError: the run failed, made no progress, or ended before it could be killed; the message has the end
            of its log.
    """
    command = [sys.executable, "-m", "mindformers_megatron.cli", "train", "--config", str(run.config)]
    follower = _Follower(run.steps)
    with log.open("wb") as output:
        # A session of its own, so that a kill reaches whatever the run may have started itself.
        process = subprocess.Popen(
            command,
            cwd=run.folder,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    deadline = time.monotonic() + _PATIENCE_SECONDS
    try:
        while True:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(_LOOK_EVERY_SECONDS)
            for step, loss in follower.read():
                on_step(step, loss)
                deadline = time.monotonic() + _PATIENCE_SECONDS
            if process.returncode is not None:
                break
            if kill_after is not None and follower.last_step >= kill_after:
                return
            if time.monotonic() > deadline:
                raise ChildProcessError(_report(f"made no step for {_PATIENCE_SECONDS:.0f} seconds", log))
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    if process.returncode:
        raise ChildProcessError(_report(f"failed with exit code {process.returncode}", log))
    if kill_after is not None:
        raise ChildProcessError(_report(f"ended before it could be killed after step {kill_after}", log))


class _Follower:
    """Reads the lines that a file has got since the last look."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._read = 0
        self.last_step = 0

    def read(self) -> list[tuple[int, float]]:
        try:
            with self._path.open("rb") as file:
                file.seek(self._read)
                content = file.read()
        except FileNotFoundError:
            return []
        whole = content[: content.rfind(b"\n") + 1]
        self._read += len(whole)
        records = [json.loads(line) for line in whole.splitlines()]
        if records:
            self.last_step = records[-1]["step"]
        return [(record["step"], record["loss"]) for record in records]


def _report(what: str, log: Path) -> str:
    with log.open(encoding="utf-8", errors="replace") as file:
        last = deque(file, _LINES_SHOWN)
    return (
        f"the training run {what}; its output is in {log} and ends with:\n"
        + "".join(f"    {line}" for line in last).rstrip()
    )
