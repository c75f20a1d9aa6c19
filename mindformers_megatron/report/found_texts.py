"""What the global steps of a preparation found, as texts: duplicates side by side, evaluation items in their documents.

The tables name documents; their texts lie in the shards of the stage before, as long as these are kept.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from mindformers_megatron.corpus.prepare.folder import OutputFolder
from mindformers_megatron.corpus.shards import read_columns
from mindformers_megatron.errors import DataError
from mindformers_megatron.report.prepared import (
    DECONTAMINATE,
    EXACT,
    NEAR,
    Cluster,
    Copy,
    Excerpt,
    FoundSpan,
    GlobalStep,
    Prepared,
)

CLUSTERS, COPIES, SPANS = 32, 3, 60
_CHARACTERS = 2000
_CONTEXT = 160
# Some seconds of reading: of larger corpora, the first part is looked at.
_MOST_ROWS = 2_000_000
_MOST_DOCUMENTS = 4_000_000

# Source, id, file and line of a document. Pieces of one record differ in their ids.
Name = tuple[str, str, str, int]


def with_texts(prepared: Prepared, folder: Path) -> Prepared:
    """Adds clusters and spans to what was read.

    Args:
        prepared: As it was read.
        folder: It was read from here.

    Raises:
        DataError: One line, for a table or shard that is damaged.
    """
    output = OutputFolder(folder)
    found: list[tuple[GlobalStep, list[tuple[int, Name, list[tuple[Name, float]]]]]] = []
    spans: list[tuple[GlobalStep, list[dict[str, Any]]]] = []
    for step in sorted(prepared.global_steps, key=lambda step: step.kind != NEAR):
        table = output.table(step.name)
        if not table.is_file():
            continue
        if step.kind in (NEAR, EXACT):
            left = CLUSTERS - sum(len(chosen) for _, chosen in found)
            found.append((step, _chosen_clusters(table, left)))
        elif step.kind == DECONTAMINATE:
            spans.append((step, _evenly(list(_rows(table, ("set", "item", "start", "end"))), SPANS)))
    clusters, placed = [], []
    for step, chosen in found:
        wanted = {name for _, kept, copies in chosen for name in (kept, *(copy for copy, _ in copies))}
        texts = _texts(output.kept(step.before), wanted)
        clusters += [_cluster(one, texts) for one in chosen if one[1] in texts]
    for step, rows in spans:
        texts = _texts(output.kept(step.before), {_name(row) for row in rows})
        placed += [_span(row, texts[_name(row)]) for row in rows if _name(row) in texts]
    return replace(prepared, clusters=tuple(clusters), spans=tuple(placed))


def _chosen_clusters(table: Path, count: int) -> list[tuple[int, Name, list[tuple[Name, float]]]]:
    """(documents, the one kept, some of the others): the largest, and those that resemble each other least."""
    members: dict[Name, list[tuple[Name, float]]] = {}
    sizes: dict[Name, int] = {}
    for row in _rows(table, ("part", "similarity", *(f"kept_{column}" for column in _NAMES))):
        # A line or paragraph that repeats is not a document that does; and texts of an index are not at hand.
        if row["part"] is None and row["kept_source"] is not None:
            kept = _name(row, "kept_")
            sizes[kept] = sizes.get(kept, 1) + 1
            others = members.setdefault(kept, [])
            others.append((_name(row), float(row["similarity"])))
            others.sort(key=lambda other: other[1])
            del others[COPIES:]
    largest = sorted(sizes, key=lambda kept: -sizes[kept])[: -(-count // 2)]
    apart = sorted(sizes, key=lambda kept: members[kept][0][1])
    chosen = list(dict.fromkeys([*largest, *apart]))[:count]
    return [(sizes[kept], kept, members[kept]) for kept in chosen]


_NAMES = ("source", "id", "file", "line")


def _name(row: dict[str, Any], prefix: str = "") -> Name:
    return row[f"{prefix}source"], row[f"{prefix}id"], row[f"{prefix}file"], row[f"{prefix}line"]


def _rows(path: Path, columns: Sequence[str]) -> Iterator[dict[str, Any]]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    read = 0
    try:
        with pq.ParquetFile(path) as file:
            if not file.metadata.num_row_groups:
                # Nothing was found; pyarrow would look for the columns in the last group all the same.
                return
            for batch in file.iter_batches(columns=[*_NAMES, *columns]):
                if set(batch.schema.names) != {*_NAMES, *columns}:
                    raise DataError(f"{path}: columns {batch.schema.names}, expected {[*_NAMES, *columns]}")
                yield from batch.to_pylist()
                read += batch.num_rows
                if read >= _MOST_ROWS:
                    return
    except (pa.ArrowException, OSError) as error:
        raise DataError(f"{path}: cannot be read as Parquet: {str(error).splitlines()[0]}") from None


def _texts(shards: Path, wanted: Iterable[Name]) -> dict[Name, str]:
    """The texts of documents, as far as they are there."""
    missing, texts, read = set(wanted), dict[Name, str](), 0
    lines = np.array(sorted({name[3] for name in missing}), dtype=np.int64)
    for path in sorted(shards.glob("**/*.parquet")):
        for table in read_columns(path, ("text", *_NAMES)):
            if not missing or read >= _MOST_DOCUMENTS:
                return texts
            read += table.num_rows
            # Few lines are asked for: what is on others needs no look at its texts.
            places = np.flatnonzero(np.isin(table.column("line").to_numpy(), lines))
            for row in table.take(places).to_pylist():
                if _name(row) in missing:
                    missing.discard(_name(row))
                    texts[_name(row)] = row["text"]
    return texts


def _cluster(one: tuple[int, Name, list[tuple[Name, float]]], texts: dict[Name, str]) -> Cluster:
    size, kept, others = one
    copies = tuple(
        Copy(document=_excerpt(name, texts[name]), similarity=near) for name, near in others if name in texts
    )
    return Cluster(size=size, kept=_excerpt(kept, texts[kept]), copies=copies)


def _span(row: dict[str, Any], text: str) -> FoundSpan:
    start, end = row["start"], min(row["end"], row["start"] + _CHARACTERS)
    first = max(start - _CONTEXT, 0)
    excerpt = _excerpt(_name(row), text[first : end + _CONTEXT])
    return FoundSpan(set_name=row["set"], item=row["item"], document=excerpt, start=start - first, end=end - first)


def _excerpt(name: Name, text: str) -> Excerpt:
    source, id_, file, line = name
    return Excerpt(id=id_, source=source, file=file, line=line, text=text[:_CHARACTERS])


def _evenly(rows: list[dict[str, Any]], count: int) -> list[dict[str, Any]]:
    step = max(1, -(-len(rows) // count))
    return rows[::step]
