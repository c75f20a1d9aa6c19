"""Starting scripts in several processes, as ``msrun`` does."""

import os
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path


def msrun(
    script: Sequence[str], ranks: int, folder: Path, environment: Mapping[str, str] | None = None
) -> tuple[int, str]:
    """Runs a script on ``ranks`` ranks in ``folder``; returns the exit code and all that was printed."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        msrun_command(script, ranks),
        cwd=folder,
        env={**os.environ, "PATH": path, **(environment or {})},
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    logs = sorted((folder / "msrun").glob("worker_*.log"))
    return done.returncode, "".join([*(log.read_text() for log in logs), done.stdout])


def msrun_command(script: Sequence[str], ranks: int) -> list[str]:
    """The command that runs a script on ``ranks`` ranks of this machine; they log to ``msrun/``."""
    launcher = str(Path(sys.executable).with_name("msrun"))
    workers = ["--worker_num", str(ranks), "--local_worker_num", str(ranks), "--master_port", free_port()]
    return [launcher, *workers, "--log_dir", "msrun", "--join", "True", *script]


def free_port() -> str:
    """A port that nothing listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return str(probe.getsockname()[1])
