"""Work spread over threads of this process, with results in the order of the tasks.

For work that leaves Python for most of its time. Nothing has to be loaded twice, and nothing is sent anywhere; what a
thread cannot have is a memory of its own to die in, for which there are ``processes``.
"""

import threading
from collections.abc import Callable, Generator, Iterable, Iterator
from queue import SimpleQueue
from typing import Any, TypeVar

from mindformers_megatron.errors import ConfigError

Task = TypeVar("Task")
Result = TypeVar("Result")

Notify = Callable[[Any], None]

_NOTICE, _RESULT, _ERROR, _END = range(4)


class _StoppedError(BaseException):
    """Ends a task whose result nobody waits for any more."""


def map_in_threads(
    make_worker: Callable[[Notify], Callable[[Task], Result]],
    tasks: Iterable[Task],
    *,
    workers: int,
    ahead: int | None = None,
    on_notice: Notify | None = None,
) -> Generator[Result, None, None]:
    """Runs tasks in threads and yields their results in the order of the tasks, as ``processes.map_ordered`` does.

    Tasks are taken from the iterable by the threads, one at a time, so that making one goes on beside doing others.
    Closing the generator ends the threads where they notify next.

    Args:
        make_worker: called once, in this thread, with a function that sends notices; returns the function that does a
            task, which several threads call at once.
        tasks: the work.
        workers: threads, at least 1.
        ahead: tasks that may have been begun whose results have not been taken yet, at least ``workers``, where results
            take memory; None: any number.
        on_notice: called in this thread with what the workers notify.

    Raises:
        ConfigError: ``workers`` is no number of threads, or ``ahead`` is less.
        BaseException: raised by a task or by the iterable; results of earlier tasks have been yielded before.
    """
    if workers < 1:
        raise ConfigError(f"workers is {workers}; give 1 or more")
    if ahead is not None and ahead < workers:
        raise ConfigError(f"ahead is {ahead}; give {workers} or more, one for each worker")
    team = _Team(tasks, ahead)
    work = make_worker(team.notify)
    threads = [
        threading.Thread(target=team.serve, args=(work,), name="mfm-worker", daemon=True) for _ in range(workers)
    ]
    for thread in threads:
        thread.start()
    try:
        yield from _in_order(team, workers, on_notice or (lambda notice: None))
    finally:
        team.stopped = True
        for _ in threads:
            team.make_room()
        for thread in threads:
            thread.join()


class _Team:
    """What the threads share."""

    def __init__(self, tasks: Iterable[Any], ahead: int | None) -> None:
        self._tasks: Iterator[Any] = iter(tasks)
        self._room = None if ahead is None else threading.Semaphore(ahead)
        self._taken = 0
        self._lock = threading.Lock()
        self.exhausted = False
        self.stopped = False
        self.events: SimpleQueue[tuple[int, int, Any]] = SimpleQueue()

    def notify(self, notice: Any) -> None:
        if self.stopped:
            raise _StoppedError
        self.events.put((_NOTICE, -1, notice))

    def make_room(self) -> None:
        """Lets one more task be begun."""
        if self._room is not None:
            self._room.release()

    def serve(self, work: Callable[[Any], Any]) -> None:
        try:
            while (numbered := self._take()) is not None:
                number, task = numbered
                try:
                    self.events.put((_RESULT, number, work(task)))
                except _StoppedError:
                    return
                except BaseException as error:
                    # Earlier tasks are all with a thread by now; they go on, so that the first error in order is the
                    # one raised.
                    self.exhausted = True
                    self.events.put((_ERROR, number, error))
        finally:
            self.events.put((_END, -1, None))

    def _take(self) -> tuple[int, Any] | None:
        if self._room is not None:
            self._room.acquire()
        with self._lock:
            if self.exhausted or self.stopped:
                return None
            number = self._taken
            try:
                task = next(self._tasks)
            except StopIteration:
                self.exhausted = True
                return None
            except BaseException as error:
                self.exhausted = True
                self.events.put((_ERROR, number, error))
                return None
            self._taken += 1
            return number, task


def _in_order(team: _Team, running: int, on_notice: Notify) -> Iterator[Any]:
    finished: dict[int, tuple[int, Any]] = {}
    following = 0
    while running:
        kind, number, content = team.events.get()
        if kind == _NOTICE:
            on_notice(content)
        elif kind == _END:
            running -= 1
        else:
            finished[number] = (kind, content)
        while following in finished:
            kind, content = finished.pop(following)
            if kind == _ERROR:
                raise content
            yield content
            following += 1
            team.make_room()
