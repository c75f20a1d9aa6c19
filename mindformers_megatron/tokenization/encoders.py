"""Workers that encode parts: threads of this process, or forks of it.

What a part takes of Python's time, threads have to take in turns: with a fast engine, more than two or three of them
have nothing left to do at once. Forks share what is loaded all the same.
"""

import multiprocessing
import os
import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import replace
from functools import partial
from types import TracebackType
from typing import Any, Protocol

import numpy as np

from mindformers_megatron.execution.processes import WorkerPool
from mindformers_megatron.execution.threads import map_in_threads
from mindformers_megatron.tokenization.engines import Engine
from mindformers_megatron.tokenization.engines.guard import GuardedEngine
from mindformers_megatron.tokenization.inputs import InputFile
from mindformers_megatron.tokenization.part_encoder import EncodingJob, PartEncoder
from mindformers_megatron.tokenization.part_markers import EncodedPart
from mindformers_megatron.tokenization.parts import Part, can_be_cut, part_bytes_for
from mindformers_megatron.tokenization.preprocess_spec import PreprocessSpec
from mindformers_megatron.tokenization.token_slots import Span, TokenSlots
from mindformers_megatron.tokenization.tokenizer import Tokenizer
from mindformers_megatron.tokenization.tokenizer_process import EngineElsewhere

# A part, and the fingerprint it is to be marked with.
Task = tuple[Part, str]
Notify = Callable[[Any], None]
Encoded = Generator[EncodedPart, None, None]

# Parts beside those that are being encoded which may wait for one before them: they are in memory until it is written.
_MOST_AHEAD = 8
# What libraries would start in a fork, where all cores have work already.
_ENVIRONMENT = {"TOKENIZERS_PARALLELISM": "false", "RAYON_NUM_THREADS": "1"}


def count_workers(spec: PreprocessSpec, files: Sequence[InputFile]) -> int:
    """Workers of a run: as many as are asked for or there are cores, but no more than there may be parts."""
    size = sum(file.size for file in files)
    # Two parts in a row are together larger than one is to be.
    most = 2 * size // (spec.part_bytes or part_bytes_for(files)) + 1 if all(map(can_be_cut, files)) else None
    workers = spec.workers or len(os.sched_getaffinity(0))
    return workers if most is None else min(workers, most)


def may_be_in_forks(spec: PreprocessSpec, files: Sequence[InputFile]) -> bool:
    """Whether forks of this process may encode.

    Not where it has other threads, whose locks they would find locked for ever, where it may have no children, or where
    it reads the input itself and would have to send it to them.
    """
    if spec.in_processes is not None:
        return spec.in_processes
    is_alone = threading.active_count() == 1 and not multiprocessing.current_process().daemon
    return is_alone and all(map(can_be_cut, files))


def _ahead(workers: int) -> int:
    """Parts that may have been begun and not been taken yet."""
    return workers + min(workers, _MOST_AHEAD)


class Encoders(Protocol):
    """Workers; they end when the block does."""

    def encode(self, tasks: Iterator[Task], on_notice: Notify | None) -> Encoded:
        """Encodes parts, and yields them in their order; see ``execution.processes.map_ordered``."""

    def __enter__(self) -> "Encoders": ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None: ...


class ThreadedEncoders:
    """Threads.

    Args:
        job: what is to be done.
        tokenizer: what defines the ids.
        engine: what encodes.
        workers: threads.
    """

    def __init__(self, job: EncodingJob, tokenizer: Tokenizer, engine: Engine, *, workers: int) -> None:
        self._make_worker = partial(PartEncoder, job, tokenizer=tokenizer, engine=engine)
        self._workers = workers

    def encode(self, tasks: Iterator[Task], on_notice: Notify | None) -> Encoded:
        """See ``Encoders``."""
        workers = self._workers
        return map_in_threads(self._make_worker, tasks, workers=workers, ahead=_ahead(workers), on_notice=on_notice)

    def __enter__(self) -> "ThreadedEncoders":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Nothing is left: the threads end with what they encode."""


class ForkedEncoders:
    """Forks, made here and now: of files and locks that are opened later they have nothing.

    Args:
        job: what is to be done.
        tokenizer: what defines the ids.
        engine: what encodes.
        workers: processes.
        held: parts whose tokens may still be in use when more are taken, at most.
    """

    def __init__(self, job: EncodingJob, tokenizer: Tokenizer, engine: Engine, *, workers: int, held: int) -> None:
        # By this process, for all of them: each would take 40 ms and 20 MB of its own.
        import pyarrow  # noqa: F401

        self._ahead = _ahead(workers)
        self._slots = TokenSlots(self._ahead + held, np.dtype(job.dtype))
        self._pool = WorkerPool(workers, _ENVIRONMENT, forked_with=partial(_Fork, job, tokenizer, engine, self._slots))

    def encode(self, tasks: Iterator[Task], on_notice: Notify | None) -> Encoded:
        """See ``Encoders``."""
        slots: dict[int, int] = {}

        def with_slots() -> Iterator[tuple[Task, int]]:
            for task in tasks:
                slots[task[0].number] = slot = self._slots.take()
                yield task, slot

        encoded: EncodedPart
        spans: list[list[Span]]
        for encoded, spans in self._pool.map(
            None, with_slots(), ahead=self._ahead, on_notice=on_notice, describe=lambda task: str(task[0][0])
        ):
            yield replace(encoded, tokens=self._slots.read(slots.pop(encoded.part.number), spans))

    def __enter__(self) -> "ForkedEncoders":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._pool.close()
        self._slots.close()


class _Fork:
    """What a fork does with a part."""

    def __init__(
        self, job: EncodingJob, tokenizer: Tokenizer, engine: Engine, slots: TokenSlots, number: int, notify: Notify
    ) -> None:
        if isinstance(tokenizer.engine, EngineElsewhere):
            tokenizer = tokenizer.engine.of_worker(number)
        if isinstance(engine, GuardedEngine):
            engine = engine.beside(tokenizer.engine)
        self._encode = PartEncoder(job, notify, tokenizer=tokenizer, engine=engine)
        self._slots = slots

    def __call__(self, task: tuple[Task, int]) -> tuple[EncodedPart, list[list[Span]]]:
        part, slot = task
        encoded = self._encode(part)
        return replace(encoded, tokens=()), self._slots.put(slot, encoded.tokens)
