"""Workers that encode parts: threads of this process, or forks of it.

What a part takes of Python's time, threads have to take in turns: with a fast engine, more than two or three of them
have nothing left to do at once. Forks share what is loaded all the same.
"""

import multiprocessing
import os
import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

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
from mindformers_megatron.tokenization.token_slots import TokenSlots
from mindformers_megatron.tokenization.tokenizer import Tokenizer
from mindformers_megatron.tokenization.tokenizer_process import EngineElsewhere

# A part, and the fingerprint it is to be marked with.
Task = tuple[Part, str]
Notify = Callable[[Any], None]
Encoded = Generator[EncodedPart, None, None]
# Encodes parts, and yields them in their order; see ``execution.processes.map_ordered``.
Encode = Callable[[Iterator[Task], Notify | None], Encoded]

# Parts beside those that are being encoded which may wait for one before them: they are in memory until it is written.
_MOST_AHEAD = 8
# What libraries would start in a fork, where all cores have work already.
_ENVIRONMENT = {"TOKENIZERS_PARALLELISM": "false", "RAYON_NUM_THREADS": "1"}


@dataclass(frozen=True, slots=True)
class Team:
    """Who encodes.

    Attributes:
        workers: how many at once.
        may_be_forks: they may be forks of this process, not threads of it.
    """

    workers: int
    may_be_forks: bool


def make_team(spec: PreprocessSpec, files: Sequence[InputFile]) -> Team:
    """Settles who encodes: as many as are asked for or there are cores, but no more than there may be parts.

    Unless they are asked for, no forks where this process has other threads, whose locks they would find locked for
    ever, where it may have no children, or where it reads the input itself and would have to send it to them.
    """
    can_all_be_cut = all(map(can_be_cut, files))
    workers = spec.workers or len(os.sched_getaffinity(0))
    if can_all_be_cut:
        # Two parts in a row are together larger than one is to be.
        size = sum(file.size for file in files)
        workers = min(workers, 2 * size // (spec.part_bytes or part_bytes_for(files)) + 1)
    is_alone = threading.active_count() == 1 and not multiprocessing.current_process().daemon
    may_be_forks = is_alone and can_all_be_cut if spec.in_processes is None else spec.in_processes
    return Team(workers, may_be_forks)


@contextmanager
def threads(job: EncodingJob, tokenizer: Tokenizer, engine: Engine, *, workers: int) -> Iterator[Encode]:
    """Threads that encode parts, in memory of this process.

    Args:
        job: what is to be done.
        tokenizer: what defines the ids.
        engine: what encodes.
        workers: threads.
    """
    make_worker = partial(PartEncoder, job, tokenizer=tokenizer, engine=engine)
    yield lambda tasks, on_notice: map_in_threads(
        make_worker, tasks, workers=workers, ahead=_ahead(workers), on_notice=on_notice
    )


@contextmanager
def forks(job: EncodingJob, tokenizer: Tokenizer, engine: Engine, *, workers: int, held: int) -> Iterator[Encode]:
    """Forks that encode parts, made when the block begins: of files and locks that are opened later they have nothing.

    Args:
        job: what is to be done.
        tokenizer: what defines the ids.
        engine: what encodes.
        workers: processes.
        held: parts whose tokens may still be in use when more are taken, at most.
    """
    # By this process, for all of them: each would take 40 ms and 20 MB of its own.
    import pyarrow  # noqa: F401

    ahead = _ahead(workers)
    slots = TokenSlots(ahead + held, np.dtype(job.dtype))
    make_worker = partial(_Fork, job, tokenizer, engine, slots)
    with closing(slots), WorkerPool(workers, _ENVIRONMENT, forked_with=make_worker) as pool:

        def encode(tasks: Iterator[Task], on_notice: Notify | None) -> Encoded:
            slot_of: dict[int, int] = {}

            def with_slots() -> Iterator[tuple[Task, int]]:
                for task in tasks:
                    slot_of[task[0].number] = slot = slots.take()
                    yield task, slot

            encoded: EncodedPart
            sizes: list[list[int]]
            for encoded, sizes in pool.map(
                None, with_slots(), ahead=ahead, on_notice=on_notice, describe=lambda task: str(task[0][0])
            ):
                yield replace(encoded, tokens=slots.read(slot_of.pop(encoded.part.number), sizes))

        yield encode


def _ahead(workers: int) -> int:
    """Parts that may have been begun and not been taken yet."""
    return workers + min(workers, _MOST_AHEAD)


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

    def __call__(self, task: tuple[Task, int]) -> tuple[EncodedPart, list[list[int]]]:
        part, slot = task
        encoded = self._encode(part)
        return replace(encoded, tokens=()), self._slots.put(slot, encoded.tokens)
