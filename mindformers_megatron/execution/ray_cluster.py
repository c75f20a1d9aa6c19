"""Work spread over a Ray cluster, with results in the order of the tasks.

Every node must have this package, and see the files of the run under the same names: texts stay in shards on a shared
file system; what travels through Ray are the tasks and their small results.
"""

import contextlib
import logging
import os
import socket
import traceback
from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass
from typing import Any, TypeVar

from mindformers_megatron.errors import ConfigError
from mindformers_megatron.execution.processes import EXPECTED

Task = TypeVar("Task")
Result = TypeVar("Result")

Notify = Callable[[Any], None]

_RESULT, _ERROR, _FAULT = range(3)
_RETRIES = 3
_PATIENCE_SECONDS = 10.0

# The function made for the tasks of one call of ``map``; a process that does many of them makes it once.
_made: tuple[object, Callable[[Any], Any]] | None = None
_notices: list[Any] = []


@dataclass(frozen=True, slots=True)
class RayEngine:
    """A Ray cluster.

    Attributes:
        workers: tasks under way at once.
        retries: how often a task is done again whose worker or node was lost.
        is_ours: the connection was made by ``connect`` and ends with the engine.
    """

    workers: int
    retries: int = _RETRIES
    is_ours: bool = False

    @classmethod
    def connect(cls, address: str | None, workers: int | None) -> "RayEngine":
        """Connects to a cluster.

        Raises:
            ConfigError: Ray is not installed, or there is no cluster at the address.
        """
        ray = _ray()
        if workers is not None and workers < 1:
            raise ConfigError(f"workers is {workers}; give 1 or more")
        is_ours = not ray.is_initialized()
        if is_ours:
            _check_reachable(address)
            try:
                ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
            except (ConnectionError, ValueError, RuntimeError) as error:
                reason = str(error).strip().splitlines()[0]
                raise ConfigError(f"no Ray cluster at {address or 'the default address'}: {reason}") from None
        cores = max(int(ray.cluster_resources().get("CPU", 1)), 1)
        return cls(cores if workers is None else workers, is_ours=is_ours)

    def map(
        self,
        make_worker: Callable[[Notify], Callable[[Task], Result]],
        tasks: Iterable[Task],
        *,
        on_notice: Notify | None = None,
        describe: Callable[[Task], str] = str,
    ) -> Generator[Result, None, None]:
        """See ``Engine.map``. What a task notifies is told when it has ended."""
        ray = _ray()
        notify = on_notice or (lambda notice: None)
        do = ray.remote(num_cpus=1, max_retries=self.retries)(_do)
        maker = ray.put(make_worker)
        numbered = enumerate(tasks)
        running: dict[Any, tuple[int, Task]] = {}
        finished: dict[int, tuple[int, Any]] = {}
        following, exhausted = 0, False
        try:
            while True:
                while not exhausted and len(running) < self.workers:
                    taken = next(numbered, None)
                    if taken is None:
                        exhausted = True
                        break
                    # The reference goes as an attribute of the call, so that a process knows the maker it has seen.
                    running[do.remote([maker], maker.hex(), taken[1])] = taken
                while following in finished:
                    yield _outcome(*finished.pop(following))
                    following += 1
                if not running:
                    return
                for reference in ray.wait(list(running))[0]:
                    number, task = running.pop(reference)
                    kind, content, notices = self._result(ray, reference, describe(task))
                    for notice in notices:
                        notify(notice)
                    # Earlier tasks go on, so that the first error in order is the one raised.
                    exhausted = exhausted or kind != _RESULT
                    finished[number] = kind, content
        finally:
            for reference in running:
                with contextlib.suppress(Exception):
                    ray.cancel(reference, force=True)

    def close(self) -> None:
        """See ``Engine.close``."""
        if self.is_ours:
            _ray().shutdown()

    def _result(self, ray: Any, reference: Any, task: str) -> tuple[int, Any, list[Any]]:
        try:
            kind, content, notices = ray.get(reference)
        except ray.exceptions.RayError as error:
            reason = str(error).strip().splitlines()[0]
            lost = f"{task}: lost with its Ray worker {self.retries + 1} times: {reason}"
            return _ERROR, ChildProcessError(lost), []
        return kind, content, notices


def _check_reachable(address: str | None) -> None:
    """Ray itself goes on trying for minutes where there is nobody."""
    host, _, port = (address or os.environ.get("RAY_ADDRESS") or "").removeprefix("ray://").rpartition(":")
    if host and port.isdecimal():
        try:
            socket.create_connection((host.strip("[]"), int(port)), _PATIENCE_SECONDS).close()
        except OSError as error:
            raise ConfigError(f"no Ray cluster at {host}:{port}: {error.strerror or error}") from None


def _do(maker: list[Any], name: str, task: Any) -> tuple[int, Any, list[Any]]:
    """What a Ray worker runs."""
    global _made
    import ray

    _notices.clear()
    try:
        if _made is None or _made[0] != name:
            _made = name, ray.get(maker[0])(_notices.append)
        return _RESULT, _made[1](task), list(_notices)
    except EXPECTED as error:
        return _ERROR, error, []
    except Exception:
        return _FAULT, traceback.format_exc(), []


def _outcome(kind: int, content: Any) -> Any:
    if kind == _RESULT:
        return content
    if kind == _ERROR:
        raise content
    raise RuntimeError(f"in a Ray worker:\n{content}")


def _ray() -> Any:
    try:
        import ray
    except ImportError:
        raise ConfigError("--engine ray needs Ray; pip install 'mindformers-megatron[ray]'") from None
    return ray
