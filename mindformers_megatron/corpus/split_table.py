"""Which part every document goes to, found in bounded memory and kept on disk.

Documents are hashes here. Those that must stay together, the pieces of one record, come with the smallest hash among
them, their *record*; those of equal content have the same hash. What is kept are the records of the parts that are
sized: all other documents are the rest. So shards look their documents up where they are divided.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from mindformers_megatron.corpus.dedup.clusters import find_clusters
from mindformers_megatron.corpus.dedup.lsh import PAIR_ROW
from mindformers_megatron.corpus.dedup.spill import Bound, Rows, Spill
from mindformers_megatron.corpus.splits import I64, U64, SplitOptions, fill, wanted
from mindformers_megatron.corpus.words import mix

DOCUMENT_ROW = np.dtype([("key", np.uint64), ("record", np.uint64), ("source", np.int32)])

_GROUP = np.dtype([("draw", np.uint64), ("record", np.uint64), ("source", np.int32), ("size", np.uint32)])
_CHOSEN = np.dtype([("record", np.uint64), ("part", np.uint8)])
_KEYS = 1 << 64
_GAMMA = np.uint64(0x9E3779B97F4A7C15)
_RECORDS, _PARTS, _LINKED, _LEADERS = (f"{name}.npy" for name in ("records", "parts", "linked", "leaders"))


@dataclass(frozen=True, slots=True)
class SplitTable:
    """The parts of records.

    Attributes:
        records: uint64[K], those of the parts that are sized, ascending.
        parts: uint8[K], their places in ``SplitOptions.parts``.
        linked: uint64[L], records that have content in common with others, ascending.
        leaders: uint64[L], the smallest record that each hangs together with.
    """

    records: U64
    parts: npt.NDArray[np.uint8]
    linked: U64
    leaders: U64

    def parts_of(self, records: U64) -> npt.NDArray[np.uint8]:
        """Returns the part of each record, uint8[N]."""
        records = _led(records, self.linked, self.leaders)
        if not self.records.size:
            return np.zeros(records.size, dtype=np.uint8)
        place = np.minimum(np.searchsorted(self.records, records), self.records.size - 1)
        return np.where(self.records[place] == records, self.parts[place], np.uint8(0))


def write_split_table(
    folder: Path, documents: Callable[[], Iterable[Rows]], options: SplitOptions, *, sources: int, bound: Bound
) -> I64:
    """Chooses the documents of every part, and writes the table of them.

    A part never gets more than it asks for; it gets less only as far as what is left are groups too large for it. A
    group of several sources counts for that of its document of smallest key. Neither the order of the documents nor the
    cut into arrays changes anything.

    Args:
        folder: takes the table.
        documents: ``DOCUMENT_ROW`` arrays, the same whenever it is called.
        options: the parts.
        sources: how many; their numbers are below it.
        bound: memory. On top come 60 bytes for each record that has content in common with another.

    Returns:
        int64[parts], the documents in each.

    Raises:
        ConfigError: more documents are asked for than there are.
    """
    count = sum(rows.size for rows in documents())
    linked, leaders = _links(documents, count, bound)
    in_source = np.zeros(sources, dtype=np.int64)
    seed = mix(np.array([options.seed % 2**64], dtype=np.uint64) * _GAMMA)
    third = Bound(memory_bytes=max(bound.memory_bytes // 3, 1 << 16), folder=bound.folder)
    with (
        Spill(_GROUP, "draw", limit=_KEYS, expected_rows=count, bound=third) as groups,
        Spill(_CHOSEN, "record", limit=_KEYS, expected_rows=count // 2, bound=third) as chosen,
    ):
        with Spill(DOCUMENT_ROW, "record", limit=_KEYS, expected_rows=count, bound=third) as grouped:
            for rows in documents():
                moved = rows.copy()
                moved["record"] = _led(rows["record"], linked, leaders)
                grouped.add(moved)
            for rows in grouped:
                found = _groups(rows, seed)
                in_source += np.bincount(found["source"], found["size"], sources).astype(np.int64)
                groups.add(found)
        counts = np.zeros(len(options.parts), dtype=np.int64)
        kept = 0
        for some, documents_in in _choose(groups, wanted(in_source, options)):
            chosen.add(some)
            counts += documents_in
            kept += some.size
        counts[0] = count - counts.sum()
        _write(folder, chosen, kept, linked, leaders)
    return counts


def read_split_table(folder: Path) -> SplitTable:
    """Maps the table that ``write_split_table`` wrote."""
    return SplitTable(*(np.load(folder / name, mmap_mode="r") for name in (_RECORDS, _PARTS, _LINKED, _LEADERS)))


def _links(documents: Callable[[], Iterable[Rows]], count: int, bound: Bound) -> tuple[U64, U64]:
    """The records that have content in common, and the smallest one that each hangs together with."""
    nothing = np.zeros(0, dtype=np.uint64)
    if not any((rows["key"] != rows["record"]).any() for rows in documents()):
        return nothing, nothing
    pairs = []
    with Spill(DOCUMENT_ROW, "key", limit=_KEYS, expected_rows=count, bound=bound) as keyed:
        for rows in documents():
            keyed.add(rows)
        for rows in keyed:
            order = np.lexsort((rows["record"], rows["key"]))
            keys, records = rows["key"][order], rows["record"][order]
            shared = np.flatnonzero((keys[1:] == keys[:-1]) & (records[1:] != records[:-1]))
            pairs.append(np.stack([records[shared], records[shared + 1]], axis=1))
    edges = np.concatenate([np.zeros((0, 2), dtype=np.uint64), *pairs])
    records, places = np.unique(edges, return_inverse=True)
    numbered = np.empty(len(edges), dtype=PAIR_ROW)
    numbered["left"], numbered["right"] = places.reshape(-1, 2).T
    found = find_clusters([numbered], np.arange(records.size))
    return records[found.documents], records[found.firsts]


def _led(records: U64, linked: U64, leaders: U64) -> U64:
    if not linked.size:
        return records
    place = np.minimum(np.searchsorted(linked, records), linked.size - 1)
    return np.where(linked[place] == records, leaders[place], records)


def _groups(rows: Rows, seed: U64) -> Rows:
    """One row for all documents of a record. The document of smallest key stands for them."""
    rows = rows[np.lexsort((rows["source"], rows["key"], rows["record"]))]
    firsts = np.flatnonzero(np.append(True, rows["record"][1:] != rows["record"][:-1]))
    groups = np.empty(firsts.size, dtype=_GROUP)
    groups["record"], groups["source"] = rows["record"][firsts], rows["source"][firsts]
    groups["draw"] = mix(groups["record"] ^ seed)
    groups["size"] = np.diff(firsts, append=rows.size)
    return groups


def _choose(groups: Iterable[Rows], room: I64) -> Iterator[tuple[Rows, I64]]:
    """Fills the parts, source by source, in the order of the draws.

    Args:
        groups: ``_GROUP`` arrays, ascending by draw from one to the next.
        room: int64[parts, sources], documents that each takes.

    Yields:
        ``_CHOSEN`` rows, and int64[parts], the documents in them.
    """
    room = room.copy()
    for rows in groups:
        if not room.any():
            return
        rows = rows[np.argsort(rows["draw"])]
        parts = np.zeros(rows.size, dtype=np.uint8)
        for source in np.flatnonzero(room.any(axis=0)):
            left = np.flatnonzero(rows["source"] == source)
            for part in range(1, len(room)):
                sizes = rows["size"][left].astype(np.int64)
                taken = fill(sizes, int(room[part, source]))
                parts[left[taken]] = part
                room[part, source] -= sizes[taken].sum()
                left = left[~taken]
        places = np.flatnonzero(parts)
        chosen = np.empty(places.size, dtype=_CHOSEN)
        chosen["record"], chosen["part"] = rows["record"][places], parts[places]
        yield chosen, np.bincount(chosen["part"], rows["size"][places], len(room)).astype(np.int64)


def _write(folder: Path, chosen: Iterable[Rows], count: int, linked: U64, leaders: U64) -> None:
    np.save(folder / _LINKED, linked)
    np.save(folder / _LEADERS, leaders)
    if not count:
        np.save(folder / _RECORDS, np.zeros(0, dtype=np.uint64))
        np.save(folder / _PARTS, np.zeros(0, dtype=np.uint8))
        return
    mapped: Any = np.lib.format.open_memmap
    records = mapped(folder / _RECORDS, mode="w+", dtype=np.uint64, shape=(count,))
    parts = mapped(folder / _PARTS, mode="w+", dtype=np.uint8, shape=(count,))
    first = 0
    for rows in chosen:
        last = first + rows.size
        order = np.argsort(rows["record"])
        records[first:last], parts[first:last] = rows["record"][order], rows["part"][order]
        first = last
    records.flush()
    parts.flush()
