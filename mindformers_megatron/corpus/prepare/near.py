"""The step ``near_dedup``: documents that say nearly the same in nearly the same words."""

import shutil
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from mindformers_megatron.corpus.batch import Batch
from mindformers_megatron.corpus.dedup.duplicates import read_duplicates, write_duplicates
from mindformers_megatron.corpus.dedup.lsh import BAND_ROW, PAIR_ROW, find_candidates
from mindformers_megatron.corpus.dedup.near import NearDuplicates, NearOptions, paired_documents, resolve, shard_rows
from mindformers_megatron.corpus.dedup.shingle_store import write_store
from mindformers_megatron.corpus.dedup.shingles import Shingles, shingle_sets
from mindformers_megatron.corpus.dedup.spill import Rows
from mindformers_megatron.corpus.jobs import Job, run_jobs
from mindformers_megatron.corpus.prepare.exact import TABLE, DropDuplicates
from mindformers_megatron.corpus.prepare.exchange import Arrays, Gathered, Room, joined, load_arrays, save_arrays
from mindformers_megatron.corpus.shards import read_columns
from mindformers_megatron.corpus.steps import Step
from mindformers_megatron.format.fingerprint import fingerprint_of

I64 = npt.NDArray[np.int64]

_CANDIDATES = "candidates.npy"


@dataclass(frozen=True, slots=True)
class NearDedup:
    """Keeps one document of each cluster of documents that resemble each other.

    Attributes:
        options: what resembles, and which is kept.
    """

    name: ClassVar[str] = "near_dedup"
    version: ClassVar[int] = 1

    options: NearOptions = field(default_factory=NearOptions)

    def settings(self) -> dict[str, Any]:
        """See ``Survey.settings``."""
        parameters = {**asdict(self.options), "bands": asdict(self.options.chosen_bands())}
        return {"name": self.name, "version": self.version, "parameters": parameters}

    def gathering(self) -> dict[str, Any]:
        """See ``Survey.gathering``."""
        return {"name": self.name, "version": self.version, "parameters": self.options.index_options()}

    def gatherer(self) -> "_Bands":
        """See ``Survey.gatherer``."""
        return _Bands(self.options)

    def find(self, shards: Sequence[Gathered], room: Room) -> dict[str, Any]:
        """See ``Survey.find``."""
        documents = sum(given.shard.documents for given in shards)
        pairs = self._pairs(shards, documents, room)
        candidates = paired_documents(pairs, documents)
        np.save(room.folder / _CANDIDATES, candidates)
        store_folder = room.folder / "store"
        store_folder.mkdir(exist_ok=True)
        store = write_store(store_folder, self._shingles(shards, candidates, room))
        edges = np.array([given.shard.first for given in shards], dtype=np.int64)
        owners = np.searchsorted(edges, store.documents, side="right") - 1
        found = resolve(
            pairs,
            store,
            self.options,
            priorities=np.array([given.shard.priority for given in shards], dtype=np.int64)[owners],
            lengths=_lengths(shards, store.documents),
        )
        write_duplicates(room.folder / TABLE, [found.duplicates])
        save_arrays(
            room.folder / "clusters.npz", {"documents": found.clusters.documents, "firsts": found.clusters.firsts}
        )
        compared = int(pairs.size)
        # Mapped files must not be gone before the arrays that are them.
        del pairs, store
        for left_over in (store_folder, room.folder / "shingles"):
            shutil.rmtree(left_over, ignore_errors=True)
        (room.folder / "pairs.bin").unlink()
        return _summary(found, compared)

    def applier(self, found: Path, given: Gathered) -> Step:
        """See ``Exchange.applier``."""
        shard = given.shard
        table = read_duplicates(found / TABLE, shard.first, shard.first + shard.documents)
        return DropDuplicates(table, shard.first, "line")

    def _pairs(self, shards: Sequence[Gathered], documents: int, room: Room) -> Rows:
        """The candidates, in a mapped file."""
        path = room.folder / "pairs.bin"
        found = find_candidates(
            (_placed(given) for given in shards),
            self.options.chosen_bands(),
            documents=documents,
            bound=room.bound,
            bucket=self.options.bucket,
        )
        with path.open("wb") as file:
            for rows in found:
                file.write(rows.view(np.uint8).data)
        # An empty file cannot be mapped.
        return np.memmap(path, PAIR_ROW, mode="r") if path.stat().st_size else np.zeros(0, dtype=PAIR_ROW)

    def _shingles(self, shards: Sequence[Gathered], candidates: I64, room: Room) -> Iterator[tuple[I64, Shingles]]:
        folder = room.folder / "shingles"
        folder.mkdir(exist_ok=True)
        # The candidates follow from the shards and the settings.
        key = fingerprint_of({"settings": self.settings(), "shards": [given.shard.key for given in shards]})
        jobs = []
        for given in shards:
            shard = given.shard
            low, high = np.searchsorted(candidates, (shard.first, shard.first + shard.documents))
            if low < high:
                task = _ShingleTask(shard.path, shard.first, int(low), int(high), folder / f"{shard.name}.npz")
                jobs.append(Job(shard.name, key, task, outputs=(task.output,)))
        work = partial(_shingle, room.folder / _CANDIDATES, self.options.ngram)
        for job, _ in zip(jobs, run_jobs(room.engine, work, jobs, folder), strict=True):
            arrays = load_arrays(job.task.output)
            yield candidates[job.task.low : job.task.high], Shingles(arrays["offsets"], arrays["values"])


@dataclass(frozen=True, slots=True)
class _ShingleTask:
    """The documents of a shard that are ``candidates[low:high]``."""

    shard: Path
    first: int
    low: int
    high: int
    output: Path


def _shingle(candidates: Path, ngram: int, task: _ShingleTask) -> dict[str, Any]:
    wanted = np.load(candidates, mmap_mode="r")[task.low : task.high] - task.first
    texts: list[str] = []
    begin = 0
    for table in read_columns(task.shard, ["text"]):
        end = begin + table.num_rows
        low, high = np.searchsorted(wanted, (begin, end))
        texts += table.column("text").take(wanted[low:high] - begin).to_pylist()
        begin = end
    sets = shingle_sets(texts, ngram)
    save_arrays(task.output, {"offsets": sets.offsets, "values": sets.values})
    return {}


class _Bands:
    def __init__(self, options: NearOptions) -> None:
        self._options = options
        self._rows: list[Rows] = []
        self._lengths: list[int] = []

    def add(self, batch: Batch) -> None:
        self._rows.append(shard_rows(batch.texts, self._options, first_document=len(self._lengths)))
        self._lengths += map(len, batch.texts)

    def arrays(self) -> Arrays:
        return {"rows": joined(self._rows, BAND_ROW), "lengths": np.array(self._lengths, dtype=np.int64)}


def _placed(given: Gathered) -> Rows:
    rows: Rows = given.load()["rows"]
    rows["document"] += given.shard.first
    return rows


def _lengths(shards: Sequence[Gathered], documents: I64) -> I64:
    """Characters of some documents."""
    lengths = np.zeros(documents.size, dtype=np.int64)
    for given in shards:
        low, high = np.searchsorted(documents, (given.shard.first, given.shard.first + given.shard.documents))
        if low < high:
            lengths[low:high] = given.load()["lengths"][documents[low:high] - given.shard.first]
    return lengths


def _summary(found: NearDuplicates, compared: int) -> dict[str, Any]:
    firsts, sizes = np.unique(found.clusters.firsts, return_counts=True)
    by_size = {str(size): int(count) for size, count in zip(*np.unique(sizes, return_counts=True), strict=True)}
    steps, counts = np.unique(np.floor(found.duplicates.similarity.astype(np.float64) * 20), return_counts=True)
    similarity = {f"{step / 20:.2f}": int(count) for step, count in zip(steps, counts, strict=True)}
    return {
        "compared_pairs": compared,
        "clusters": int(firsts.size),
        "documents_in_clusters": int(found.clusters.documents.size),
        "dropped": len(found.duplicates),
        "clusters_by_size": by_size,
        "dropped_by_similarity": similarity,
    }
