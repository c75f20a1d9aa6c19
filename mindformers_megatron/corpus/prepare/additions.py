"""What a run adds to the indexes it was compared with, once its output stands."""

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from mindformers_megatron.corpus.dedup.duplicates import read_duplicates
from mindformers_megatron.corpus.dedup.earlier import EarlierDocuments
from mindformers_megatron.corpus.dedup.spill import Bound
from mindformers_megatron.corpus.prepare.exact import TABLE
from mindformers_megatron.corpus.prepare.exchange import Gathered, Shard
from mindformers_megatron.corpus.prepare.folder import OutputFolder
from mindformers_megatron.corpus.prepare.growing import INDEXED, addition_of, read_indexed
from mindformers_megatron.corpus.prepare.near import NearDedup
from mindformers_megatron.corpus.prepare.outcome import Outcome
from mindformers_megatron.corpus.prepare.stages import stages_of
from mindformers_megatron.corpus.recipe import Recipe
from mindformers_megatron.corpus.shards import read_columns

U32 = npt.NDArray[np.uint32]

_ORIGIN = ("source", "file", "line", "byte_offset")
Origin = tuple[object, ...]


@dataclass(frozen=True, slots=True)
class ClaimedIndexes:
    """The indexes that a run is to add to.

    Attributes:
        by_stage: under the name of the stage that is compared with it.
    """

    by_stage: dict[str, EarlierDocuments]

    def add(self, outcome: Outcome) -> None:
        """Adds the documents that are kept to the end; call it when they are published."""
        folder = OutputFolder(outcome.recipe.output)
        bound = Bound(memory_bytes=outcome.recipe.memory_bytes, folder=folder.spill)
        kept: dict[str, list[Path]] = {}
        for one in outcome.divided:
            kept.setdefault(one.shard.name, []).append(one.shard.path)
        for before, stage in zip(outcome.stages, outcome.stages[1:], strict=False):
            name = stage.stage.name
            if name in self.by_stage:
                found, gathered = folder.found(name), folder.gathered(name)
                parts = _parts(before.shards, gathered, found, kept)
                self.by_stage[name].add(parts, addition_of(found), bound)


@contextlib.contextmanager
def claim_indexes(recipe: Recipe) -> Iterator[ClaimedIndexes]:
    """Opens the indexes that a recipe adds to, and keeps other runs from doing so in the meantime.

    Raises:
        ConfigError: another run is at work with one of them, or it was made with other options.
        DataError: one is damaged.
    """
    with contextlib.ExitStack() as stack:
        indexes = {}
        for one in stages_of(recipe):
            step = one.incoming
            if isinstance(step, NearDedup) and step.index is not None:
                index = step.index.open(step.options)
                if not step.index.read_only:
                    stack.enter_context(index.claim())
                    indexes[one.name] = index
        yield ClaimedIndexes(indexes)


def _parts(
    shards: Sequence[Shard], gathered: Path, found: Path, kept: dict[str, list[Path]]
) -> Iterator[tuple[list[str], U32]]:
    """The ids and signatures, as the step saw them, of documents of which something is kept to the end."""
    for shard in shards:
        if shard.name not in kept:
            continue
        origins = {origin for path in kept[shard.name] for origin, _ in _names(path)}
        last = shard.first + shard.documents
        dropped = {
            *read_duplicates(found / TABLE, shard.first, last).documents.tolist(),
            *read_indexed(found / INDEXED, shard.first, last).places.tolist(),
        }
        ids, places = [], []
        for place, (origin, id_) in enumerate(_names(shard.path)):
            # Steps that follow may have cut a document in pieces, which have other ids but the same origin.
            if origin in origins and shard.first + place not in dropped:
                ids.append(id_)
                places.append(place)
        yield ids, Gathered(shard, gathered / f"{shard.name}.npz").load()["signatures"][places]


def _names(path: Path) -> Iterator[tuple[Origin, str]]:
    """Origin and id of each document of a shard."""
    for table in read_columns(path, (*_ORIGIN, "id")):
        columns = [table.column(name).to_pylist() for name in (*_ORIGIN, "id")]
        for *origin, id_ in zip(*columns, strict=True):
            yield tuple(origin), id_
