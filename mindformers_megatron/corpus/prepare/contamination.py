"""The step ``decontaminate``: evaluation texts found in the corpus, and taken out of it."""

import functools
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import orjson

from mindformers_megatron.corpus.batch import Batch
from mindformers_megatron.corpus.decontaminate.actions import ContaminationOptions, counted_hits, treat
from mindformers_megatron.corpus.decontaminate.evaluation import read_evaluation_set
from mindformers_megatron.corpus.decontaminate.ngram_index import Hits, NgramIndex
from mindformers_megatron.corpus.decontaminate.report import (
    Counts,
    contamination_report,
    count_hits,
    without_common,
    write_spans,
)
from mindformers_megatron.corpus.decontaminate.spans import Spans, item_spans
from mindformers_megatron.corpus.passages import Unit
from mindformers_megatron.corpus.prepare.exchange import Arrays, Gathered, Room, joined, settle
from mindformers_megatron.corpus.steps import Step
from mindformers_megatron.corpus.tally import Drop, Tally
from mindformers_megatron.errors import ConfigError
from mindformers_megatron.format.atomic import write_atomically
from mindformers_megatron.format.hashing import Hashes, hash_file

REPORT = "contamination.json"
SPANS = "contamination.parquet"
_COUNTS = "ngram_documents.npy"


@dataclass(frozen=True, slots=True)
class EvaluationSet:
    """An evaluation set as a recipe names it.

    Attributes:
        name: of the set.
        paths: its files.
        keys: see ``read_evaluation_set``.
        unit: likewise.
    """

    name: str
    paths: tuple[str, ...]
    keys: tuple[str, ...] | None = None
    unit: Unit = "paragraph"


@dataclass(frozen=True, slots=True)
class Decontaminate:
    """Looks for the n-grams of evaluation sets, and drops, cuts or reports what has them.

    Attributes:
        sets: the evaluation sets.
        options: how they are looked for, and what is done.
    """

    name: ClassVar[str] = "decontaminate"
    version: ClassVar[int] = 1

    sets: tuple[EvaluationSet, ...]
    options: ContaminationOptions = field(default_factory=ContaminationOptions)

    def settings(self) -> dict[str, Any]:
        """See ``Survey.settings``."""
        sets = [{**asdict(chosen), "sha256": [_sha256(path) for path in chosen.paths]} for chosen in self.sets]
        return {"name": self.name, "version": self.version, "parameters": asdict(self.options), "sets": sets}

    def gathering(self) -> dict[str, Any]:
        """See ``Survey.gathering``."""
        settings = self.settings()
        of_look_up = {name: settings["parameters"][name] for name in ("ngram", "shortest")}
        return {**settings, "parameters": of_look_up}

    def gatherer(self) -> "_Found":
        """See ``Survey.gatherer``."""
        return _Found(_index(self))

    def find(self, shards: Sequence[Gathered], room: Room) -> dict[str, Any]:
        """See ``Survey.find``."""
        index = _index(self)
        total = count_hits(_no_hits(), index)
        for given in shards:
            total = total + count_hits(_placed(given), index)
        np.save(room.folder / _COUNTS, total.ngram_documents)
        report = contamination_report(total, index)
        write_atomically(room.folder / REPORT, orjson.dumps(report, option=orjson.OPT_SERIALIZE_NUMPY))
        spans = write_spans(room.folder / SPANS, self._spans(shards, total, index), index)
        counted = ("items", "searched", "found", "whole")
        sets = [{"name": entry["name"], **{name: int(entry[name]) for name in counted}} for entry in report]
        return {"ngrams": index.num_ngrams, "sets": sets, "spans": spans}

    def applier(self, found: Path, given: Gathered) -> Step:
        """See ``Exchange.applier``."""
        hits = _hits(given.load())
        if self.options.common is not None and len(hits):
            counts = np.load(found / _COUNTS, mmap_mode="r")
            hits = hits.chosen(counts[hits.ngrams] <= self.options.common)
        return _Treat(counted_hits(hits, self.options), self.options)

    def _spans(self, shards: Sequence[Gathered], counts: Counts, index: NgramIndex) -> Iterator[Spans]:
        for given in shards:
            hits = counted_hits(without_common(_placed(given), counts, self.options.common), self.options)
            yield item_spans(hits, index)


class _Found:
    def __init__(self, index: NgramIndex) -> None:
        self._index = index
        self._hits: list[Hits] = []
        self._documents = 0

    def add(self, batch: Batch) -> None:
        self._hits.append(self._index.find(batch.texts, first_document=self._documents))
        self._documents += len(batch)

    def arrays(self) -> Arrays:
        return {name: joined([getattr(hits, name) for hits in self._hits], np.int64) for name in Hits.__slots__}


class _Treat:
    name: ClassVar[str] = Decontaminate.name
    version: ClassVar[int] = Decontaminate.version

    def __init__(self, hits: Hits, options: ContaminationOptions) -> None:
        self._hits, self._options, self._following = hits, options, 0

    def apply(self, batch: Batch, tally: Tally) -> Batch:
        first = self._following
        self._following += len(batch)
        low, high = np.searchsorted(self._hits.documents, (first, self._following))
        if low == high:
            return batch
        hits = self._hits.chosen(np.arange(low, high))
        drops = {}
        for document, count in zip(*np.unique(hits.documents, return_counts=True), strict=True):
            place = int(document) - first
            tally.find(batch.documents[place].source, "contaminated")
            drops[place] = Drop("contaminated", f"{count} n-grams of evaluation sets")
        return settle(batch, treat(batch.texts, hits, self._options, first_document=first), drops, tally)


# One index is enough for a process; it has the n-grams of all evaluation sets in it.
@functools.lru_cache(maxsize=1)
def _index(step: Decontaminate) -> NgramIndex:
    items = [
        item
        for chosen in step.sets
        for path in chosen.paths
        for item in read_evaluation_set(Path(path), name=chosen.name, keys=chosen.keys, unit=chosen.unit)
    ]
    return NgramIndex(items, ngram=step.options.ngram, shortest=step.options.shortest)


def _hits(arrays: Arrays) -> Hits:
    return Hits(*(arrays[name] for name in Hits.__slots__))


def _placed(given: Gathered) -> Hits:
    hits = _hits(given.load())
    return Hits(hits.documents + given.shard.first, hits.starts, hits.ends, hits.ngrams)


def _no_hits() -> Hits:
    return Hits(*np.zeros((4, 0), dtype=np.int64))


def _sha256(path: str) -> str:
    try:
        with Path(path).open("rb") as file:
            hashes = Hashes(sha256=True, md5=False)
            hash_file(file.fileno(), hashes)
            return str(hashes.sha256)
    except OSError as error:
        raise ConfigError(f"evaluation set {path}: cannot be read: {error.strerror}") from None
