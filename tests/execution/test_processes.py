import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from execution.tasks import DieTheFirstTimes, FailAtOddNumbers, HoldFifoOpen

from mindformers_megatron.errors import ConfigError, DataError
from mindformers_megatron.execution.processes import WorkerPool, map_ordered
from mindformers_megatron.execution.threads import map_in_threads

Notify = Callable[[Any], None]


class Square:
    def __init__(self, notify: Notify) -> None:
        self._notify = notify

    def __call__(self, number: int) -> int:
        self._notify((number, os.getpid()))
        return number * number


class DieAtThree:
    def __init__(self, notify: Notify) -> None:
        pass

    def __call__(self, number: int) -> int:
        if number == 3:
            os.kill(os.getpid(), signal.SIGKILL)
        return number


class DivideByZero:
    def __init__(self, notify: Notify) -> None:
        pass

    def __call__(self, number: int) -> float:
        return 1 / 0


class NeverMade:
    def __init__(self, notify: Notify) -> None:
        raise ConfigError("there is no such worker")

    def __call__(self, number: int) -> int:
        return number


class ReadVariable:
    def __init__(self, notify: Notify) -> None:
        self._value = os.environ.get("MFM_TEST_VARIABLE")

    def __call__(self, number: int) -> str | None:
        return self._value


def map_in_forks(
    make_worker: Callable[[Notify], Callable[[Any], Any]],
    tasks: Iterable[Any],
    *,
    workers: int,
    environment: Mapping[str, str] | None = None,
    **options: Any,
) -> Iterator[Any]:
    """As ``map_ordered`` does it, in forks."""
    with WorkerPool(workers, environment, forked_with=lambda number, notify: make_worker(notify)) as pool:
        yield from pool.map(None, tasks, **options)


IN_PROCESSES = pytest.mark.parametrize("mapped", [map_ordered, map_in_forks], ids=["spawned", "forked"])
ANYWHERE = pytest.mark.parametrize(
    "mapped", [map_ordered, map_in_forks, map_in_threads], ids=["spawned", "forked", "threads"]
)


@IN_PROCESSES
@pytest.mark.parametrize("workers", [1, 2, 3])
def test_results_come_in_the_order_of_the_tasks_for_any_number_of_workers(mapped: Any, workers: int) -> None:
    notices: list[tuple[int, int]] = []
    results = list(mapped(Square, range(20), workers=workers, on_notice=notices.append))
    assert results == [number * number for number in range(20)]
    assert sorted(number for number, _ in notices) == list(range(20))
    assert len({pid for _, pid in notices}) <= workers
    assert os.getpid() not in {pid for _, pid in notices}


@ANYWHERE
def test_no_tasks_no_results(mapped: Any) -> None:
    assert list(mapped(Square, [], workers=2)) == []


@ANYWHERE
@pytest.mark.parametrize(("workers", "ahead"), [(1, 1), (2, 2), (2, 5), (3, 4)])
def test_no_more_tasks_are_begun_than_may_wait_for_their_results_to_be_taken(
    mapped: Any, workers: int, ahead: int
) -> None:
    taken: list[int] = []

    def tasks() -> Iterator[int]:
        for number in range(30):
            taken.append(number)
            yield number

    for number, result in enumerate(mapped(Square, tasks(), workers=workers, ahead=ahead)):
        assert result == number * number
        assert len(taken) <= number + ahead
    assert len(taken) == 30


@ANYWHERE
def test_a_round_is_left_while_tasks_wait_for_room(mapped: Any) -> None:
    results = mapped(Square, range(100), workers=2, ahead=2)
    assert next(results) == 0
    results.close()


def test_tasks_are_taken_only_as_workers_become_free() -> None:
    taken: list[int] = []

    def tasks() -> Any:
        for number in range(100):
            taken.append(number)
            yield number

    results = map_ordered(Square, tasks(), workers=1)
    assert next(results) == 0
    assert len(taken) < 10
    results.close()


@ANYWHERE
@pytest.mark.parametrize("workers", [1, 2, 4])
def test_the_first_error_in_order_is_the_one_raised_after_the_results_before_it(mapped: Any, workers: int) -> None:
    got = []
    with pytest.raises(DataError, match=r"^1 is odd$"):
        for result in mapped(FailAtOddNumbers, range(20), workers=workers):
            got.append(result)  # noqa: PERF402 - what came before the error counts
    assert got == [0]


@IN_PROCESSES
@pytest.mark.parametrize("workers", [1, 3])
def test_a_worker_that_is_killed_ends_the_run_with_one_line(mapped: Any, workers: int) -> None:
    with pytest.raises(ChildProcessError, match=r"killed by SIGKILL on task 3; .*memory") as caught:
        list(mapped(DieAtThree, range(20), workers=workers, describe=lambda task: f"task {task}"))
    assert "\n" not in str(caught.value)


@IN_PROCESSES
def test_a_worker_that_cannot_be_made_says_why(mapped: Any) -> None:
    with pytest.raises(ConfigError, match="there is no such worker"):
        list(mapped(NeverMade, range(3), workers=2))


@IN_PROCESSES
def test_a_fault_of_the_program_keeps_its_traceback(mapped: Any) -> None:
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        list(mapped(DivideByZero, range(3), workers=2))


@IN_PROCESSES
def test_variables_are_set_before_workers_are_made(mapped: Any) -> None:
    results = mapped(ReadVariable, [0], workers=1, environment={"MFM_TEST_VARIABLE": "set"})
    assert list(results) == ["set"]
    assert "MFM_TEST_VARIABLE" not in os.environ


@ANYWHERE
def test_fewer_than_one_worker_is_refused(mapped: Any) -> None:
    with pytest.raises(ConfigError, match="workers is 0"):
        list(mapped(Square, [1], workers=0))


@IN_PROCESSES
def test_giving_up_stops_workers_in_mid_task(mapped: Any, tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    seen: list[None] = []

    class EnoughError(Exception):
        pass

    def stop(notice: None) -> None:
        seen.append(notice)
        raise EnoughError

    with pytest.raises(EnoughError):
        list(mapped(partial(HoldFifoOpen, str(fifo)), [0], workers=1, on_notice=stop))
    os.set_blocking(reader, True)
    with os.fdopen(reader, "rb") as file:
        # The end of the pipe is reached only when the worker is gone.
        assert file.read() == b"here\n"


@pytest.mark.parametrize(
    "mapped",
    [
        "map_ordered(make_worker, range(2), workers=2)",
        "WorkerPool(2, forked_with=lambda number, notify: make_worker(notify)).map(None, range(2))",
    ],
    ids=["spawned", "forked"],
)
def test_workers_do_not_outlive_a_parent_that_was_killed(mapped: str, tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    script = tmp_path / "script.py"
    script.write_text(
        "import sys\n"
        f"sys.path.insert(0, {str(Path(__file__).parents[1])!r})\n"
        "from functools import partial\n"
        "from execution.tasks import HoldFifoOpen\n"
        "from mindformers_megatron.execution.processes import WorkerPool, map_ordered\n"
        "if __name__ == '__main__':\n"
        f"    make_worker = partial(HoldFifoOpen, {str(fifo)!r})\n"
        f"    list({mapped})\n"
    )
    parent = subprocess.Popen([sys.executable, str(script)])
    with fifo.open("rb") as file:
        assert file.readline() == b"here\n"
        assert file.readline() == b"here\n"
        parent.kill()
        assert file.read() == b""
    parent.wait()


def test_forks_get_numbers_and_what_no_pipe_could_send_them() -> None:
    lock = threading.Lock()  # cannot be pickled

    def make_worker(number: int, notify: Notify) -> Callable[[int], tuple[int, bool]]:
        return lambda task: (number, lock.locked())

    with lock, WorkerPool(3, forked_with=make_worker) as pool:
        # All at once, so that each has one.
        assert sorted(pool.map(None, range(3), ahead=3)) == [(0, True), (1, True), (2, True)]


def test_a_fork_that_died_is_followed_by_one_of_its_number(tmp_path: Path) -> None:
    def make_worker(number: int, notify: Notify) -> Callable[[int], int]:
        die = DieTheFirstTimes(tmp_path, 1, notify)
        return lambda task: die(task) * 0 + number

    with WorkerPool(1, forked_with=make_worker) as pool:
        assert list(pool.map(None, range(3), retries=1)) == [0, 0, 0]
