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
from mindformers_megatron.corpus.dedup.lsh import BAND_ROW, PAIR_ROW, band_rows, find_candidates
from mindformers_megatron.corpus.dedup.minhash import sign
from mindformers_megatron.corpus.dedup.near import NearDuplicates, NearOptions, paired_documents, resolve
from mindformers_megatron.corpus.dedup.shingle_store import write_store
from mindformers_megatron.corpus.dedup.shingles import Shingles, shingle_sets
from mindformers_megatron.corpus.dedup.spill import Rows
from mindformers_megatron.corpus.jobs import Job, run_jobs
from mindformers_megatron.corpus.prepare.exact import TABLE, DropDuplicates
from mindformers_megatron.corpus.prepare.exchange import Arrays, Gathered, Room, joined, load_arrays, save_arrays
from mindformers_megatron.corpus.prepare.growing import (
    INDEXED,
    REASON,
    DropAlike,
    GrowingIndex,
    forget_indexed,
    read_indexed,
)
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
        index: of documents of earlier runs, which are kept instead of any of these; None: there are none.
    """

    name: ClassVar[str] = "near_dedup"
    version: ClassVar[int] = 1

    options: NearOptions = field(default_factory=NearOptions)
    index: GrowingIndex | None = None

    def settings(self) -> dict[str, Any]:
        """See ``Survey.settings``."""
        parameters = {**asdict(self.options), "bands": asdict(self.options.chosen_bands())}
        settings = {"name": self.name, "version": self.version, "parameters": parameters}
        return settings if self.index is None else {**settings, "index": self.index.state(self.options)}

    def gathering(self) -> dict[str, Any]:
        """See ``Survey.gathering``."""
        options = self.options.index_options()
        # It decides by way of the bands alone.
        options.pop("threshold")
        gathering = {"name": self.name, "version": self.version, "parameters": options}
        return gathering if self.index is None else {**gathering, "signatures": True}

    def gatherer(self) -> "_Bands":
        """See ``Survey.gatherer``."""
        return _Bands(self.options, with_signatures=self.index is not None)

    def find(self, shards: Sequence[Gathered], room: Room) -> dict[str, Any]:
        """See ``Survey.find``."""
        documents = sum(given.shard.documents for given in shards)
        forget_indexed(room.folder)
        indexed = None if self.index is None else self.index.find(shards, self.options, room.folder)
        pairs = self._pairs(shards, documents, indexed, room)
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
        summary = _summary(found, compared)
        return summary if indexed is None else {**summary, REASON: int(indexed.size)}

    def applier(self, found: Path, given: Gathered) -> Step:
        """See ``Exchange.applier``."""
        shard = given.shard
        last = shard.first + shard.documents
        table = read_duplicates(found / TABLE, shard.first, last)
        if self.index is not None:
            return DropAlike(table, read_indexed(found / INDEXED, shard.first, last), shard.first)
        return DropDuplicates(table, shard.first, "line")

    def _pairs(self, shards: Sequence[Gathered], documents: int, indexed: I64 | None, room: Room) -> Rows:
        """The candidates, in a mapped file; none of those that resemble documents of the index."""
        path = room.folder / "pairs.bin"
        found = find_candidates(
            (_placed(given, indexed) for given in shards),
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
    def __init__(self, options: NearOptions, *, with_signatures: bool) -> None:
        self._options, self._with_signatures = options, with_signatures
        self._signatures: list[npt.NDArray[np.uint32]] = [np.zeros((0, options.permutations), dtype=np.uint32)]
        self._rows: list[Rows] = []
        self._lengths: list[int] = []

    def add(self, batch: Batch) -> None:
        options = self._options
        signatures = sign(batch.texts, ngram=options.ngram, permutations=options.permutations, seed=options.seed)
        self._rows.append(band_rows(signatures, options.chosen_bands(), len(self._lengths)))
        if self._with_signatures:
            self._signatures.append(signatures)
        self._lengths += map(len, batch.texts)

    def arrays(self) -> Arrays:
        arrays = {"rows": joined(self._rows, BAND_ROW), "lengths": np.array(self._lengths, dtype=np.int64)}
        return {**arrays, "signatures": np.concatenate(self._signatures)} if self._with_signatures else arrays


def _placed(given: Gathered, left_out: I64 | None) -> Rows:
    rows: Rows = given.load()["rows"]
    rows["document"] += given.shard.first
    return rows if left_out is None else rows[~np.isin(rows["document"], left_out)]


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
