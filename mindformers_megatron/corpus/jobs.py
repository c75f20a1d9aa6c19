"""Jobs that leave a marker when they are done, so that a run that was killed does only what is left.

A job's key says all that its result depends on: another key, another job. The marker is written by the worker, after
all that the job writes, so that what is done counts even if nobody is left to hear of it.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Generic, TypeVar

import orjson

from mindformers_megatron.errors import DataError
from mindformers_megatron.execution.engines import Engine, Notify
from mindformers_megatron.format.atomic import write_atomically

Task = TypeVar("Task")

Result = dict[str, Any]
_SUFFIX = ".done.json"


@dataclass(frozen=True, slots=True)
class Job(Generic[Task]):
    """A task to be done once.

    Attributes:
        name: of its marker, without suffix; unique among the jobs of a folder.
        key: changes whenever the result would.
        task: what the work is given.
        size: how much there is to do, in whatever unit progress is shown in.
        outputs: files that the work leaves; where one is gone, the job is done again.
    """

    name: str
    key: str
    task: Task
    size: int = 1
    outputs: tuple[Path, ...] = ()


def run_jobs(
    engine: Engine,
    work: Callable[[Task], Result],
    jobs: Sequence[Job[Task]],
    folder: Path,
    *,
    on_done: Callable[[int], None] | None = None,
) -> Iterator[Result]:
    """Does the jobs that are not done yet, and yields the results of all, in order.

    Args:
        engine: where.
        work: does a task and returns JSON values; picklable. What it writes must be there, whole, when it returns, and
            may be written twice.
        jobs: the jobs.
        folder: of the markers; made if it is not there.
        on_done: told the size of each job as it ends, those done before first.
    """
    folder.mkdir(parents=True, exist_ok=True)
    told = on_done or (lambda size: None)
    # Not the results themselves: those of many shards do not fit in memory.
    known = {job.name for job in jobs if finished(folder, job.name, job.key, job.outputs) is not None}
    for job in jobs:
        if job.name in known:
            told(job.size)
    left = [job for job in jobs if job.name not in known]
    made = engine.map(partial(_Marked, work, folder), left, on_notice=told, describe=lambda job: job.name)
    try:
        for job in jobs:
            result = finished(folder, job.name, job.key) if job.name in known else next(made)
            if result is None:
                raise DataError(
                    f"{folder / job.name}{_SUFFIX}: was removed or overwritten while it was needed; run again"
                )
            yield result
    finally:
        made.close()


def finished(folder: Path, name: str, key: str, outputs: Sequence[Path] = ()) -> Result | None:
    """The result of a job that is done; None if it is not, was done with another key, or an output is gone."""
    try:
        marker = orjson.loads((folder / f"{name}{_SUFFIX}").read_bytes())
    except (FileNotFoundError, orjson.JSONDecodeError):
        return None
    if not isinstance(marker, dict) or marker.get("key") != key or not isinstance(marker.get("result"), dict):
        return None
    return dict(marker["result"]) if all(path.exists() for path in outputs) else None


def begin(folder: Path, name: str) -> None:
    """Says that the outputs of a job are being written: until ``mark`` it is not done, whatever it was before."""
    (folder / f"{name}{_SUFFIX}").unlink(missing_ok=True)


def mark(folder: Path, name: str, key: str, result: Result) -> Result:
    """Marks a job as done; returns its result as it will be read."""
    data = orjson.dumps({"key": key, "result": result})
    write_atomically(folder / f"{name}{_SUFFIX}", data)
    return dict(orjson.loads(data)["result"])


def forget(folder: Path) -> None:
    """Removes all markers of a folder; the jobs are done again when they are asked for."""
    for path in folder.glob(f"*{_SUFFIX}"):
        path.unlink()


class _Marked(Generic[Task]):
    def __init__(self, work: Callable[[Task], Result], folder: Path, notify: Notify) -> None:
        self._work, self._folder, self._notify = work, folder, notify

    def __call__(self, job: Job[Task]) -> Result:
        begin(self._folder, job.name)
        result = mark(self._folder, job.name, job.key, self._work(job.task))
        self._notify(job.size)
        return result
