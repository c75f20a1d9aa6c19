"""What is done with one shard: read, passed through the steps, written, and looked at for the next global step."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from mindformers_megatron.corpus.batch import batches_of
from mindformers_megatron.corpus.documents import Document
from mindformers_megatron.corpus.jobs import begin, mark
from mindformers_megatron.corpus.prepare.exchange import Gathered, Survey, save_arrays
from mindformers_megatron.corpus.prepare.splitting import Split
from mindformers_megatron.corpus.prepare.stages import Read, Stage
from mindformers_megatron.corpus.readers.parts import ReadPart
from mindformers_megatron.corpus.readers.reading import read_part
from mindformers_megatron.corpus.rejects import Rejects
from mindformers_megatron.corpus.shards import ShardWriter, read_shard
from mindformers_megatron.corpus.steps import Step, run_chain
from mindformers_megatron.corpus.tally import Tally


@dataclass(frozen=True, slots=True)
class ShardTask:
    """A shard, on its way through a stage.

    Attributes:
        name: of the shard.
        given: what a part of the raw files is; or the shard that the stage before left, and what it gave.
        output: where the documents go that are kept.
        gathered: where what the shard gives to the next global step goes; None: there is none.
        gathered_key: of that.
    """

    name: str
    given: ReadPart | Gathered
    output: Path
    gathered: Path | None
    gathered_key: str


@dataclass(frozen=True, slots=True)
class StageWork:
    """The work of a stage.

    Attributes:
        stage: the stage.
        found: what its global step has found; None for the first stage.
        outgoing: the global step to come.
        rejects_allowed: see ``Rejects``.
    """

    stage: Stage
    found: Path | None
    outgoing: Survey | None
    rejects_allowed: int | None

    def __call__(self, task: ShardTask) -> dict[str, Any]:
        """Does it; returns counts and tallies."""
        rejects = Rejects(self.rejects_allowed)
        first, documents = self._opened(task, rejects)
        steps: list[Step] = [first, *self.stage.steps]
        tallies = [Tally() for _ in steps]
        gatherer = None if self.outgoing is None else self.outgoing.gatherer()
        size = 0
        with ShardWriter(task.output) as writer:
            for batch in run_chain(steps, documents, tallies):
                writer.add(batch.documents)
                size += sum(batch.sizes)
                if gatherer is not None:
                    gatherer.add(batch)
        if gatherer is not None and task.gathered is not None:
            folder = task.gathered.parent
            begin(folder, task.name)
            save_arrays(task.gathered, gatherer.arrays())
            mark(folder, task.name, task.gathered_key, {})
        return {
            "documents": writer.documents,
            "bytes": size,
            "tallies": [tally.to_json() for tally in tallies],
            "rejects": [reject.to_json() for reject in rejects.found],
        }

    def _opened(self, task: ShardTask, rejects: Rejects) -> tuple[Step, Iterator[Document]]:
        """The step that the stage begins with, and the documents that come to it."""
        if isinstance(task.given, ReadPart):
            return Read(), read_part(task.given, rejects.add)
        assert self.stage.incoming is not None and self.found is not None
        documents = chain.from_iterable(read_shard(task.given.shard.path))
        return self.stage.incoming.applier(self.found, task.given), documents


@dataclass(frozen=True, slots=True)
class GatherWork:
    """Looks at a shard that was finished before, for a global step that is new or has changed.

    Attributes:
        exchange: the global step.
    """

    exchange: Survey

    def __call__(self, task: Gathered) -> dict[str, Any]:
        """Does it."""
        gatherer = self.exchange.gatherer()
        for batch in batches_of(chain.from_iterable(read_shard(task.shard.path))):
            gatherer.add(batch)
        save_arrays(task.path, gatherer.arrays())
        return {}


@dataclass(frozen=True, slots=True)
class SplitTask:
    """A shard to be divided."""

    given: Gathered
    outputs: dict[str, Path]


@dataclass(frozen=True, slots=True)
class SplitWork:
    """The work of the stage that splits."""

    split: Split
    found: Path

    def __call__(self, task: SplitTask) -> dict[str, Any]:
        """Does it; returns the documents and bytes of each part."""
        return self.split.divide(self.found, task.given, task.outputs)
