"""Where tasks are done: in processes of this machine, or on a Ray cluster. What comes out is the same.

That is so because a task is a pure function of what it is given, results come in the order of the tasks, and a task
whose worker was lost is done again from the start.
"""

import os
from collections.abc import Callable, Generator, Iterable
from typing import Any, Literal, Protocol, TypeVar, get_args

from mindformers_megatron.errors import ConfigError
from mindformers_megatron.execution.processes import WorkerPool

Task = TypeVar("Task")
Result = TypeVar("Result")

EngineName = Literal["local", "ray"]
Notify = Callable[[Any], None]

# A worker killed for want of memory may succeed once others are done; one that dies of its task never will.
_RETRIES = 3


class Engine(Protocol):
    """Where tasks are done."""

    @property
    def workers(self) -> int:
        """How many tasks are under way at once."""
        ...

    def map(
        self,
        make_worker: Callable[[Notify], Callable[[Task], Result]],
        tasks: Iterable[Task],
        *,
        on_notice: Notify | None = None,
        describe: Callable[[Task], str] = str,
    ) -> Generator[Result, None, None]:
        """Does tasks and yields their results in the order of the tasks; see ``processes.map_ordered``.

        A task whose worker is lost is given to another one, up to three times: its effects must not mind being had
        twice.
        """
        ...

    def close(self) -> None:
        """Lets the workers go."""
        ...


class LocalEngine:
    """Processes of this machine; with one worker, this process itself.

    Args:
        workers: how many.
        retries: how often a task whose worker died is given to another one.
    """

    def __init__(self, workers: int, retries: int = _RETRIES) -> None:
        self._pool = WorkerPool(workers)
        self._retries = retries
        self.workers = workers

    def map(
        self,
        make_worker: Callable[[Notify], Callable[[Task], Result]],
        tasks: Iterable[Task],
        *,
        on_notice: Notify | None = None,
        describe: Callable[[Task], str] = str,
    ) -> Generator[Result, None, None]:
        """See ``Engine.map``."""
        notify = on_notice or _ignore
        listed = list(tasks)
        if self.workers > 1 and len(listed) > 1:
            yield from self._pool.map(make_worker, listed, on_notice=notify, describe=describe, retries=self._retries)
        elif listed:
            work = make_worker(notify)
            for task in listed:
                yield work(task)

    def close(self) -> None:
        """See ``Engine.close``."""
        self._pool.close()


def open_engine(name: EngineName = "local", *, workers: int | None = None, address: str | None = None) -> Engine:
    """Opens an engine.

    Args:
        name: ``local`` or ``ray``.
        workers: tasks under way at once; None: one per core, of this machine or of the cluster.
        address: of the Ray cluster (``auto``: the one of this machine); None: what ``RAY_ADDRESS`` says, or a cluster
            of this machine alone that ends with the run.

    Raises:
        ConfigError: it cannot be had.
    """
    if name not in get_args(EngineName):
        raise ConfigError(f"engine {name!r}: not one of {', '.join(get_args(EngineName))}")
    if name == "ray":
        from mindformers_megatron.execution.ray_cluster import RayEngine

        return RayEngine.connect(address, workers)
    if address is not None:
        raise ConfigError(f"address is {address!r}, but the engine is local; give --engine ray with it")
    return LocalEngine(len(os.sched_getaffinity(0)) if workers is None else workers)


def _ignore(notice: Any) -> None:
    pass
