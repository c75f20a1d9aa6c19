"""Workers that tests of every engine run; importable in worker processes."""

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mindformers_megatron.errors import DataError

Notify = Callable[[Any], None]


class Square:
    def __init__(self, notify: Notify) -> None:
        self._notify = notify

    def __call__(self, number: int) -> int:
        self._notify(number)
        return number * number


class FailAtOddNumbers:
    def __init__(self, notify: Notify) -> None:
        pass

    def __call__(self, number: int) -> int:
        if number % 2:
            raise DataError(f"{number} is odd")
        return number


class HoldFifoOpen:
    """Holds a named pipe open for writing for as long as the worker lives, and works for ever."""

    def __init__(self, fifo: str, notify: Notify) -> None:
        self._notify = notify
        self._file = open(fifo, "wb")  # noqa: SIM115, PTH123

    def __call__(self, number: int) -> int:
        self._file.write(b"here\n")
        self._file.flush()
        while True:
            self._notify(None)


class DieTheFirstTimes:
    """Dies on its tasks until it has done so ``times`` times on each."""

    def __init__(self, folder: Path, times: int, notify: Notify) -> None:
        self._folder, self._times = folder, times

    def __call__(self, number: int) -> int:
        seen = self._folder / str(number)
        before = len(seen.read_bytes()) if seen.exists() else 0
        if before < self._times:
            with seen.open("ab") as file:
                file.write(b"x")
            os.kill(os.getpid(), signal.SIGKILL)
        return number


def record(folder: Path, number: int) -> dict[str, int]:
    """A job: leaves a file, and a line in a log of what was done."""
    with (folder / "log").open("a") as log:
        log.write(f"{number}\n")
    (folder / f"{number}.out").write_text(str(number))
    return {"number": number}


def wait_for_file(path: Path, notify: Notify) -> Callable[[int], tuple[int, str]]:
    """Makes a function that waits until a file is there, and says which node it was on."""

    def work(number: int) -> tuple[int, str]:
        import ray

        node = ray.get_runtime_context().get_node_id()
        (path / f"begun-{number}-{node}-{os.getpid()}").touch()
        while not (path / "go").exists():
            os.sched_yield()
        return number, node

    return work
