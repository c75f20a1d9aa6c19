"""Stretches of a pair that can be looked at independently, in any process."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from mindformers_megatron.errors import DataError
from mindformers_megatron.format.hashing import Hashes
from mindformers_megatron.format.index import map_index
from mindformers_megatron.format.slices import IndexSlices
from mindformers_megatron.format.verify.boundaries import suspects
from mindformers_megatron.format.verify.extents import Contradictions, contradictions
from mindformers_megatron.format.verify.spans import Spans, spans_of_mask

_HASHED_AT_ONCE = 1 << 22

OnBytes = Callable[[int], None]


class Task(Protocol):
    """Work on a stretch of a pair."""

    def run(self, on_bytes: OnBytes) -> Any:
        """Does it, saying how many bytes were looked at since it was last said."""


# Does tasks and yields their results in order, as ``execution.processes.map_ordered`` does.
RunTasks = Callable[[Iterable[Task]], Iterator[Any]]


class TaskWorker:
    """What does tasks in a process; made by ``map_ordered`` and the like."""

    def __init__(self, notify: OnBytes) -> None:
        self._notify = notify

    def __call__(self, task: Task) -> Any:
        """Does a task."""
        return task.run(self._notify)


def run_here(tasks: Iterable[Task]) -> Iterator[Any]:
    """Does tasks in this process, one by one, silently."""
    return (task.run(_silent) for task in tasks)


def _silent(count: int) -> None:
    pass


@dataclass(frozen=True, slots=True)
class SequencesSeen:
    """What lengths and pointers of a stretch say.

    Attributes:
        contradictions: where they contradict each other.
        impossible: sequences whose length is negative, or that do not lie within ``.bin``.
        tokens: what the lengths add up to.
    """

    contradictions: Contradictions
    impossible: Spans
    tokens: int


@dataclass(frozen=True, slots=True)
class ScanSequences:
    """Compares lengths and pointers of sequences ``[begin, end)``."""

    prefix: str
    multimodal: bool
    begin: int
    end: int
    bin_size: int

    def run(self, on_bytes: OnBytes) -> SequencesSeen:
        """See ``Task``."""
        index = map_index(self.prefix, multimodal=self.multimodal)
        slices, width = IndexSlices(index), index.dtype.itemsize
        lengths, pointers = slices.lengths(self.begin, self.end), slices.pointers(self.begin, self.end)
        is_last = self.end == index.num_sequences
        following = self.bin_size if is_last else int(slices.pointers(self.end, self.end + 1)[0])
        # Compared without adding, which could wrap around.
        room = (self.bin_size - pointers.clip(0, self.bin_size)) // width
        impossible = (lengths < 0) | (pointers < 0) | (pointers > self.bin_size) | (lengths > room)
        on_bytes(12 * lengths.size)
        return SequencesSeen(
            contradictions(lengths, pointers, following, self.begin, width),
            spans_of_mask(impossible, self.begin),
            int(lengths.sum(dtype=np.int64)),
        )


@dataclass(frozen=True, slots=True)
class ScanBoundaries:
    """Looks for document indices ``[begin, end)`` that do not ascend; returns int64, ascending."""

    prefix: str
    multimodal: bool
    begin: int
    end: int

    def run(self, on_bytes: OnBytes) -> NDArray[np.int64]:
        """See ``Task``."""
        index = map_index(self.prefix, multimodal=self.multimodal)
        count = len(index.document_indices)
        documents = IndexSlices(index).documents(self.begin, min(self.end + 1, count))
        on_bytes(8 * (self.end - self.begin))
        found = suspects(documents, self.begin, count, index.num_sequences)
        return found[found < self.end]


@dataclass(frozen=True, slots=True)
class HashFile:
    """Hashes a file; returns the digest, hex.

    Attributes:
        path: the file.
        algorithm: which hash.
    """

    path: Path
    algorithm: Literal["sha256", "md5"]

    def run(self, on_bytes: OnBytes) -> str:
        """See ``Task``."""
        hashes = Hashes(sha256=self.algorithm == "sha256", md5=self.algorithm == "md5")
        try:
            with self.path.open("rb", buffering=0) as file:
                while data := file.read(_HASHED_AT_ONCE):
                    hashes.update(data)
                    on_bytes(len(data))
        except OSError as error:
            raise DataError(f"{self.path}: cannot be read: {error.strerror}") from None
        return str(hashes.sha256 or hashes.md5)
