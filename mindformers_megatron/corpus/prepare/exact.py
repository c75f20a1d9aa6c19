"""The step ``exact_dedup``: copies of documents, of their beginnings, of paragraphs and lines."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from mindformers_megatron.corpus.batch import Batch
from mindformers_megatron.corpus.dedup.duplicates import (
    Duplicates,
    read_duplicates,
    without_duplicates,
    write_duplicates,
)
from mindformers_megatron.corpus.dedup.exact import HASH_ROW, ExactOptions, find_duplicates, renumbered, shard_rows
from mindformers_megatron.corpus.dedup.spill import Rows
from mindformers_megatron.corpus.passages import Unit
from mindformers_megatron.corpus.prepare.exchange import Arrays, Gathered, Room, joined, settle
from mindformers_megatron.corpus.steps import Step
from mindformers_megatron.corpus.tally import Drop, Tally

TABLE = "duplicates.parquet"


@dataclass(frozen=True, slots=True)
class ExactDedup:
    """Drops what repeats what a source of higher priority, or an earlier document, has.

    Attributes:
        options: what is compared.
    """

    name: ClassVar[str] = "exact_dedup"
    version: ClassVar[int] = 1

    options: ExactOptions = field(default_factory=ExactOptions)

    def settings(self) -> dict[str, Any]:
        """See ``Survey.settings``."""
        return {"name": self.name, "version": self.version, "parameters": asdict(self.options)}

    def gathering(self) -> dict[str, Any]:
        """See ``Survey.gathering``."""
        options = asdict(self.options)
        # How many copies there must be is looked at when all are known.
        options.pop("copies")
        return {"name": self.name, "version": self.version, "parameters": options}

    def gatherer(self) -> "_Rows":
        """See ``Survey.gatherer``."""
        return _Rows(self.options)

    def find(self, shards: Sequence[Gathered], room: Room) -> dict[str, Any]:
        """See ``Survey.find``."""
        documents = sum(given.shard.documents for given in shards)
        sizes = [int(given.load()["rows"].size) for given in shards]
        found = find_duplicates(
            (_placed(given) for given in shards),
            expected_rows=sum(sizes),
            documents=documents,
            bound=room.bound,
            copies=self.options.copies,
        )
        kept = np.zeros(documents, dtype=np.bool_)
        rows = write_duplicates(room.folder / TABLE, _noting(found, kept))
        groups = int(np.count_nonzero(kept))
        return {"unit": self.options.unit, "compared": sum(sizes), "dropped": rows, "groups": groups}

    def applier(self, found: Path, given: Gathered) -> Step:
        """See ``Exchange.applier``."""
        shard = given.shard
        table = read_duplicates(found / TABLE, shard.first, shard.first + shard.documents)
        return DropDuplicates(table, shard.first, "paragraph" if self.options.unit == "paragraph" else "line")


class _Rows:
    def __init__(self, options: ExactOptions) -> None:
        self._options = options
        self._rows: list[Rows] = []
        self._documents = 0

    def add(self, batch: Batch) -> None:
        self._rows.append(shard_rows(batch.texts, self._options, first_document=self._documents))
        self._documents += len(batch)

    def arrays(self) -> Arrays:
        return {"rows": joined(self._rows, HASH_ROW)}


class DropDuplicates:
    """Drops what a table of duplicates says, from documents that come in order.

    Args:
        duplicates: of these documents.
        first: the number of the first document.
        unit: what ``duplicates.parts`` count.
    """

    name: ClassVar[str] = "duplicates"
    version: ClassVar[int] = 1

    def __init__(self, duplicates: Duplicates, first: int, unit: Unit) -> None:
        self._duplicates, self._following, self._unit = duplicates, first, unit

    def apply(self, batch: Batch, tally: Tally) -> Batch:
        """See ``Step.apply``."""
        first = self._following
        self._following += len(batch)
        left = without_duplicates(batch.texts, self._duplicates, first_document=first, unit=self._unit)
        drops = {}
        if None in left:
            low, high = np.searchsorted(self._duplicates.documents, (first, self._following))
            for row in range(low, high):
                detail = f"{self._duplicates.similarity[row]:.2f} like document {self._duplicates.kept[row]}"
                drops[int(self._duplicates.documents[row]) - first] = Drop("duplicate", detail)
        return settle(batch, left, drops, tally)


def _placed(given: Gathered) -> Rows:
    return renumbered(given.load()["rows"], first_document=given.shard.first, priority=given.shard.priority)


def _noting(chunks: Iterator[Duplicates], kept: npt.NDArray[np.bool_]) -> Iterator[Duplicates]:
    """Notes the documents that are kept instead of others."""
    for chunk in chunks:
        kept[chunk.kept] = True
        yield chunk
