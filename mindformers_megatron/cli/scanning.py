"""Work on stretches of pairs, spread over processes where there is enough of it, with progress on stderr."""

import argparse
import contextlib
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

from mindformers_megatron.errors import ConfigError

if TYPE_CHECKING:
    from mindformers_megatron.format.verify.tasks import RunTasks

# Less than this is done before the processes are up.
_WORTH_PROCESSES = 1 << 28


def add_workers(parser: argparse.ArgumentParser) -> None:
    """The option for how many processes there are."""
    parser.add_argument("--workers", type=int, metavar="N", help="processes (one per core)")


@contextlib.contextmanager
def scanning(verb: str, total: int, workers: int | None) -> Iterator["RunTasks"]:
    """What does tasks and shows how far it has come.

    Args:
        verb: what is being done.
        total: bytes to be looked at.
        workers: processes; None: one per core.

    Raises:
        ConfigError: ``workers`` is no number of processes.
    """
    from mindformers_megatron.cli.copy_progress import CopyProgress
    from mindformers_megatron.execution.processes import map_ordered
    from mindformers_megatron.format.verify.tasks import TaskWorker

    if workers is not None and workers < 1:
        raise ConfigError(f"--workers is {workers}; give 1 or more")
    count = 1 if total < _WORTH_PROCESSES else workers or len(os.sched_getaffinity(0))
    with CopyProgress(verb, total) as progress:
        if count == 1:
            yield lambda tasks: map(TaskWorker(progress), tasks)
        else:
            yield lambda tasks: map_ordered(TaskWorker, tasks, workers=count, on_notice=progress)
