"""Doing what is left of a stage, and telling how far it is."""

import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

from mindformers_megatron.corpus.dedup.spill import Bound
from mindformers_megatron.corpus.jobs import Job, begin, finished, mark, run_jobs
from mindformers_megatron.corpus.prepare.exchange import Gathered, Room, Survey
from mindformers_megatron.corpus.prepare.folder import OutputFolder
from mindformers_megatron.errors import ConfigError
from mindformers_megatron.execution.engines import Engine
from mindformers_megatron.format.fingerprint import fingerprint_of

Values = dict[str, Any]


class Progress(Protocol):
    """Told how far the work is."""

    def begin(self, stage: str, what: str, total: int) -> None:
        """A piece of work begins, of so many bytes; 0: it is not known."""

    def advance(self, size: int) -> None:
        """So many bytes of it are done."""

    def end(self) -> None:
        """It is done."""


class JobRunner:
    """Runs the jobs of stages.

    Args:
        folder: where markers and outputs are.
        engine: where jobs are done.
        progress: told how far it is.
        memory_bytes: for global steps.
        finished_before: stages whose jobs must be finished; those of an only stage that is asked for.
    """

    def __init__(
        self,
        folder: OutputFolder,
        engine: Engine,
        progress: Progress,
        *,
        memory_bytes: int,
        finished_before: Sequence[str] = (),
    ) -> None:
        self._folder = folder
        self._engine = engine
        self._progress = progress
        self._bound = Bound(memory_bytes=memory_bytes, folder=folder.spill)
        self._finished_before = finished_before
        # What a killed run has spilled is of no use to anybody.
        shutil.rmtree(folder.spill, ignore_errors=True)
        folder.spill.mkdir(parents=True)

    def run(
        self, stage: str, what: str, work: Callable[[Any], Values], jobs: Sequence[Job[Any]], folder: Path
    ) -> Iterator[Values]:
        """Does the jobs that are left while it is iterated over; yields the results of all, in order.

        Raises:
            ConfigError: the stage was to be finished, and is not.
        """
        folder.mkdir(parents=True, exist_ok=True)
        if stage in self._finished_before:
            left = sum(finished(folder, job.name, job.key, job.outputs) is None for job in jobs)
            self._refuse(stage, f"{left:,} of {len(jobs):,} shards are", left)
        self._progress.begin(stage, what, sum(job.size for job in jobs))
        yield from run_jobs(self._engine, work, jobs, folder, on_done=self._progress.advance)
        self._progress.end()

    def once(
        self,
        stage: str,
        what: str,
        name: str,
        key: str,
        folder: Path,
        work: Callable[[], Values],
        outputs: tuple[Path, ...] = (),
    ) -> Values:
        """Does a single job in this process, unless it is finished; returns its result.

        Raises:
            ConfigError: the stage was to be finished, and is not.
        """
        folder.mkdir(parents=True, exist_ok=True)
        result = finished(folder, name, key, outputs)
        if result is None:
            if stage in self._finished_before:
                self._refuse(stage, "a part of it is", 1)
            self._progress.begin(stage, what, 0)
            begin(folder, name)
            result = mark(folder, name, key, work())
            self._progress.end()
        return result

    def find(self, stage: str, exchange: Survey, given: Sequence[Gathered]) -> tuple[Path, Values]:
        """Lets a global step look at all shards; returns where it left what it found, and that in short.

        Of the result, ``key`` says all that it depends on.
        """
        folder = self._folder.found(stage)
        shards = [(one.shard.key, one.shard.source, one.shard.priority) for one in given]
        key = fingerprint_of({"settings": exchange.settings(), "shards": shards})

        def work() -> Values:
            return {**exchange.find(given, Room(folder, self._bound, self._engine)), "key": key}

        return folder, self.once(stage, "comparing", "found", key, folder, work)

    @staticmethod
    def _refuse(stage: str, what: str, left: int) -> None:
        if left:
            raise ConfigError(f"stage {stage}: {what} not finished; run it first, or leave --only out")
