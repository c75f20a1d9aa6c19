"""Work spread over processes of this machine, with results in the order of the tasks.

Not ``concurrent.futures``: its workers survive a parent that was killed, cannot be stopped in mid-task, and say nothing
while they work. Here each worker holds one pipe. A worker that dies closes its end, and so does a parent that dies:
neither can wait for ever.
"""

import contextlib
import multiprocessing
import os
import signal
import traceback
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from types import TracebackType
from typing import Any, TypeVar

from mindformers_megatron.errors import ConfigError, DataError

Task = TypeVar("Task")
Result = TypeVar("Result")

Notify = Callable[[Any], None]

_NOTICE, _RESULT, _ERROR = 0, 1, 2
# What is raised again as it is; anything else is a fault of the program, and its traceback is wanted.
EXPECTED = (DataError, ConfigError, OSError)


@dataclass(slots=True)
class _Worker:
    """A process, the number of the task in its hands (-1: none), and of the round that it has been made ready for."""

    number: int
    process: BaseProcess
    pipe: Connection
    task: int = -1
    round: int = -1


def map_ordered(
    make_worker: Callable[[Notify], Callable[[Task], Result]],
    tasks: Iterable[Task],
    *,
    workers: int,
    ahead: int | None = None,
    environment: Mapping[str, str] | None = None,
    on_notice: Notify | None = None,
    describe: Callable[[Task], str] = str,
    retries: int = 0,
) -> Generator[Result, None, None]:
    """Runs tasks in worker processes and yields their results in the order of the tasks.

    Tasks are taken from the iterable one at a time, when a worker is free. Which tasks run, and in which order their
    results come, does not depend on the number of workers. Of several failing tasks the first in order is the one
    reported. Closing the generator ends the workers, in mid-task if need be.

    Args:
        make_worker: called once in each worker process with a function that sends notices; returns the function that
            does a task. Must be picklable, like tasks, results and notices.
        tasks: the work.
        workers: processes, at least 1; no more are started than there are tasks.
        ahead: tasks that may have been begun whose results have not been taken yet, at least 1, where results take
            memory; None: any number.
        environment: variables set in the workers before ``make_worker`` is called.
        on_notice: called in this process with what the workers notify, in no particular order between workers.
        describe: names a task in the message about a worker that died on it.
        retries: how many more workers a task is given to whose worker died; meant for tasks without side effects, or
            whose effects may happen twice.

    Raises:
        ChildProcessError: a worker died (killed, for want of memory for example) once more than ``retries`` allow.
        DataError, ConfigError, OSError: raised by a task; those of earlier tasks have been yielded before.
    """
    with WorkerPool(workers, environment) as pool:
        yield from pool.map(make_worker, tasks, ahead=ahead, on_notice=on_notice, describe=describe, retries=retries)


class WorkerPool:
    """Worker processes that stay for one round of tasks after the other; started as needed, and never left behind.

    Args:
        workers: processes, at least 1.
        environment: variables set in them when they start.
        forked_with: workers are forks of this process, all made here and now, and this is called once in each instead
            of a ``make_worker``, with its number from 0 too. It need not be picklable. For a process without other
            threads: what they hold locked stays locked in a fork.

    Raises:
        ConfigError: ``workers`` is no number of processes.
    """

    def __init__(
        self,
        workers: int,
        environment: Mapping[str, str] | None = None,
        *,
        forked_with: Callable[[int, Notify], Callable[[Any], Any]] | None = None,
    ) -> None:
        if workers < 1:
            raise ConfigError(f"workers is {workers}; give 1 or more")
        self._limit = workers
        self._environment = dict(environment or {})
        self._forked_with = forked_with
        self._rounds = 0
        self.workers: list[_Worker] = []
        if forked_with is not None:
            for _ in range(workers):
                self._start()

    def map(
        self,
        make_worker: Callable[[Notify], Callable[[Task], Result]] | None,
        tasks: Iterable[Task],
        *,
        ahead: int | None = None,
        on_notice: Notify | None = None,
        describe: Callable[[Task], str] = str,
        retries: int = 0,
    ) -> Generator[Result, None, None]:
        """A round of tasks; see ``map_ordered``. One at a time: the next begins when this one is closed."""
        self._rounds += 1
        try:
            numbered = enumerate(tasks)
            yield from _run(self, make_worker, numbered, ahead, on_notice or (lambda notice: None), describe, retries)
        finally:
            for worker in [worker for worker in self.workers if worker.task >= 0]:
                worker.process.kill()
                self.bury(worker)

    def free(self) -> _Worker | None:
        """A worker without a task, a new one if none is and there may be more."""
        for worker in self.workers:
            if worker.task < 0:
                return worker
        return self._start() if len(self.workers) < self._limit else None

    def _start(self) -> _Worker:
        number = min(set(range(self._limit)) - {worker.number for worker in self.workers})
        maker, not_its_own = None, list[Connection]()
        ours, theirs = multiprocessing.Pipe()
        if self._forked_with is not None:
            maker = partial(self._forked_with, number)
            # A fork has all that is open here. While it holds this end of a pipe, nobody at the other finds it closed.
            not_its_own = [ours, *(worker.pipe for worker in self.workers)]
        # Spawned unless asked: threads of this process do not survive a fork, and what they hold stays locked.
        context = multiprocessing.get_context("spawn" if maker is None else "fork")
        arguments = (theirs, self._environment, maker, not_its_own)
        process = context.Process(target=_serve, args=arguments, name="mfm-worker", daemon=True)  # type: ignore[attr-defined]
        process.start()
        # This copy of the worker's end must go, or its death would not be noticed.
        theirs.close()
        worker = _Worker(number, process, ours)
        self.workers.append(worker)
        return worker

    def give(self, worker: _Worker, make_worker: Callable[[Notify], Callable[[Any], Any]] | None, task: Any) -> None:
        """Gives a worker a task, and with its first one of a round what makes it ready."""
        maker = None if worker.round == self._rounds else make_worker
        worker.round = self._rounds
        with contextlib.suppress(BrokenPipeError):  # found dead when it is listened to, with a better message
            worker.pipe.send((maker, task))

    def bury(self, worker: _Worker) -> None:
        """Forgets a worker that died; another one may take its place."""
        worker.process.join()
        worker.pipe.close()
        self.workers.remove(worker)

    def close(self) -> None:
        """Ends all workers."""
        for worker in self.workers:
            worker.pipe.close()
        for worker in self.workers:
            worker.process.join()
        self.workers = []

    def __enter__(self) -> "WorkerPool":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


def _run(
    pool: WorkerPool,
    make_worker: Callable[[Notify], Callable[[Task], Result]] | None,
    tasks: Iterator[tuple[int, Task]],
    ahead: int | None,
    on_notice: Notify,
    describe: Callable[[Task], str],
    retries: int,
) -> Iterator[Result]:
    running: dict[int, Task] = {}
    finished: dict[int, Result | BaseException] = {}
    lost: dict[int, int] = {}
    again: list[int] = []
    following = taken = 0
    exhausted = False

    def may_begin() -> bool:
        return not exhausted and (ahead is None or taken - following < ahead)

    while True:
        while (again or may_begin()) and (worker := pool.free()) is not None:
            if again:
                number = again.pop()
                numbered = number, running[number]
            elif (following_task := next(tasks, None)) is not None:
                numbered = following_task
                taken += 1
            else:
                exhausted = True
                break
            worker.task, running[numbered[0]] = numbered[0], numbered[1]
            pool.give(worker, make_worker, numbered[1])
        while following in finished:
            outcome = finished.pop(following)
            if isinstance(outcome, BaseException):
                raise outcome
            yield outcome
            following += 1
        busy = {worker.pipe: worker for worker in pool.workers if worker.task >= 0}
        if not busy and not again:
            if exhausted:
                return
            continue
        for pipe in wait(list(busy)):
            worker = busy[pipe]  # type: ignore[index]
            try:
                kind, content = worker.pipe.recv()
            except (EOFError, ConnectionResetError):
                lost[worker.task] = lost.get(worker.task, 0) + 1
                if lost[worker.task] > retries:
                    raise ChildProcessError(_obituary(worker, describe(running[worker.task]))) from None
                again.append(worker.task)
                pool.bury(worker)
                continue
            if kind == _NOTICE:
                on_notice(content)
                continue
            # Earlier tasks are all with a worker by now; they go on, so that the first error in order is the one
            # raised.
            exhausted = exhausted or kind == _ERROR
            finished[worker.task] = _as_exception(content) if kind == _ERROR else content
            del running[worker.task]
            worker.task = -1


def _obituary(worker: _Worker, task: str) -> str:
    worker.process.join()
    code = worker.process.exitcode or 0
    if code >= 0:
        return f"a worker process ended with exit code {code} on {task}; its own message stands above"
    name = signal.Signals(-code).name
    hint = "; the system may have run out of memory: try fewer --workers" if name == "SIGKILL" else ""
    return f"a worker process was killed by {name} on {task}{hint}"


def _as_exception(content: BaseException | str) -> BaseException:
    return RuntimeError(f"in a worker process:\n{content}") if isinstance(content, str) else content


def _serve(
    pipe: Connection,
    environment: dict[str, str],
    maker: Callable[[Notify], Callable[[Any], Any]] | None,
    not_its_own: list[Connection],
) -> None:
    for other in not_its_own:
        other.close()
    # An interrupt from the keyboard reaches the whole group; the parent alone decides what it means.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    os.environ.update(environment)
    work: Callable[[Any], Any] | None = None
    unfit: BaseException | str = "no worker was made"
    try:
        while True:
            given, task = pipe.recv()
            maker = maker or given
            if maker is not None:
                # What the last one held is let go before the next one takes memory.
                work = None
                try:
                    work = maker(lambda notice: pipe.send((_NOTICE, notice)))
                except BaseException as error:
                    unfit = told(error)
                maker = None
            if work is None:
                pipe.send((_ERROR, unfit))
                continue
            try:
                outcome = (_RESULT, work(task))
            except (EOFError, BrokenPipeError, ConnectionResetError):
                raise
            except BaseException as error:
                outcome = (_ERROR, told(error))
            pipe.send(outcome)
    except (EOFError, BrokenPipeError, ConnectionResetError):
        # The parent is done, or gone.
        return


def told(error: BaseException) -> BaseException | str:
    """What another process is told of an error: the error itself where it is expected, else its traceback."""
    return error if isinstance(error, EXPECTED) else "".join(traceback.format_exception(error))
