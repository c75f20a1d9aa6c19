"""Steps that need the whole corpus: shards give arrays, the arrays are looked at together, and each shard is told.

Texts never leave their shard. What a shard gives does not depend on where it stands in the corpus: documents are
numbered from its first, and the numbers are moved when all shards are known. So a shard is looked at while its texts
are at hand, and what was found in it holds until its texts change.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Protocol

import numpy as np
import numpy.typing as npt

from mindformers_megatron.corpus.batch import Batch
from mindformers_megatron.corpus.dedup.spill import Bound
from mindformers_megatron.corpus.steps import Step, sift
from mindformers_megatron.corpus.tally import Drop, Tally
from mindformers_megatron.errors import DataError
from mindformers_megatron.execution.engines import Engine
from mindformers_megatron.format.atomic import open_atomically

Arrays = Mapping[str, npt.NDArray[Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Shard:
    """The documents of one part of a source, as a stage left them.

    Attributes:
        name: the same in all stages.
        source: whose documents they are.
        priority: of the source; the smallest keeps what several have.
        path: where they are.
        key: says all that they depend on.
        documents: how many.
        bytes: of their texts.
        first: the number, in the corpus, of the first.
    """

    name: str
    source: str
    priority: int
    path: Path
    key: str
    documents: int = 0
    bytes: int = 0
    first: int = 0


@dataclass(frozen=True, slots=True)
class Gathered:
    """A shard, and the file of what it gave."""

    shard: Shard
    path: Path

    def load(self) -> dict[str, npt.NDArray[Any]]:
        """What it gave."""
        return load_arrays(self.path)


@dataclass(frozen=True, slots=True)
class Room:
    """Where the arrays of all shards are looked at.

    Attributes:
        folder: takes what is found.
        bound: memory, and where what does not fit goes.
        engine: for looking into shards once more.
    """

    folder: Path
    bound: Bound
    engine: Engine


class Gatherer(Protocol):
    """Takes in the documents of a shard, in order."""

    def add(self, batch: Batch) -> None:
        """Takes in the next documents."""
        ...

    def arrays(self) -> Arrays:
        """What the shard gives."""
        ...


class Survey(Protocol):
    """A look at the whole corpus.

    Attributes:
        name: in recipes, reports and errors.
        version: raised whenever it comes to find or do something else.
    """

    name: ClassVar[str]
    version: ClassVar[int]

    def settings(self) -> dict[str, Any]:
        """All that the result depends on beside the documents, as JSON values."""
        ...

    def gathering(self) -> dict[str, Any]:
        """Of these, what a shard gives depends on; a change of the others does not make it look again."""
        ...

    def gatherer(self) -> Gatherer:
        """For the documents of one shard."""
        ...

    def find(self, shards: Sequence[Gathered], room: Room) -> dict[str, Any]:
        """Looks at all shards together, and leaves in ``room.folder`` what it finds; returns that in short, as JSON."""
        ...


class Exchange(Survey, Protocol):
    """A step over the whole corpus: a look at it, and what follows for each document."""

    def applier(self, found: Path, given: Gathered) -> Step:
        """The step for the documents of one shard, which must come in order.

        Args:
            found: the folder that ``find`` has filled.
            given: the shard.
        """
        ...


def settle(batch: Batch, left: Sequence[str | None], drops: Mapping[int, Drop], tally: Tally) -> Batch:
    """Passes on what is left of documents, and counts the rest.

    Args:
        batch: the documents.
        left: the text of each as it goes on; None: it is dropped.
        drops: why, by place in the batch.
        tally: of the step.
    """
    texts = [document.text if text is None else text for document, text in zip(batch.documents, left, strict=True)]
    rewritten = batch.rewritten(texts)
    for before, after in zip(batch.documents, rewritten.documents, strict=True):
        if after is not before:
            tally.change(before, after.text)
    dropped = [drops[place] if text is None else None for place, text in enumerate(left)]
    return sift(batch, dropped, tally, rewritten)


def save_arrays(path: Path, arrays: Arrays) -> None:
    """Writes arrays, whole or not at all."""
    with open_atomically(path) as file:
        np.savez(file, **arrays)


def load_arrays(path: Path) -> dict[str, npt.NDArray[Any]]:
    """Reads what ``save_arrays`` wrote.

    Raises:
        DataError: the file is missing or damaged.
    """
    try:
        with np.load(path, allow_pickle=False) as arrays:
            return dict(arrays)
    except (OSError, ValueError, EOFError) as error:
        raise DataError(f"{path}: cannot be read ({error}); remove it, and it is made again") from None


def joined(parts: Sequence[npt.NDArray[Any]], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """Arrays one after the other; an empty one of this type if there are none."""
    return np.concatenate([np.zeros(0, dtype=dtype), *parts])


OnDone = Callable[[int], None]
