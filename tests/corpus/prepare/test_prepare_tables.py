"""Tables for people name documents, however few of them are in memory at once."""

from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

from mindformers_megatron.corpus.decontaminate.ngram_index import NgramIndex
from mindformers_megatron.corpus.decontaminate.report import write_spans
from mindformers_megatron.corpus.dedup.duplicates import WHOLE, Duplicates, write_duplicates
from mindformers_megatron.corpus.documents import Document, Origin
from mindformers_megatron.corpus.prepare.contamination import SPANS
from mindformers_megatron.corpus.prepare.exact import TABLE
from mindformers_megatron.corpus.prepare.exchange import Shard
from mindformers_megatron.corpus.prepare.tables import write_contamination_table, write_duplicate_table
from mindformers_megatron.corpus.shards import write_shard

DOCUMENTS = 12_000


def shards_in(folder: Path) -> list[Shard]:
    shards = []
    for number, first in enumerate(range(0, DOCUMENTS, 5000)):
        count = min(5000, DOCUMENTS - first)
        documents = [
            Document("x", f"d{first + row}", "web", Origin(f"f{number}", row + 1, row)) for row in range(count)
        ]
        path = folder / f"{number}.parquet"
        write_shard(path, documents)
        shards.append(
            Shard(name=str(number), source="web", priority=0, path=path, key="", documents=count, first=first)
        )
    return shards


def test_duplicates_are_named_the_same_whatever_memory_there_is(tmp_path: Path) -> None:
    shards = shards_in(tmp_path)
    dropped = np.arange(1, DOCUMENTS)
    kept = np.random.default_rng(0).integers(0, dropped)
    parts = np.where(dropped % 3 == 0, 7, WHOLE).astype(np.int32)
    similarity = np.linspace(0.7, 1, dropped.size).astype(np.float32)
    write_duplicates(tmp_path / TABLE, [Duplicates(dropped, parts, kept, similarity)])
    tables = []
    for memory in (1, 1 << 30):
        write_duplicate_table(tmp_path, shards, tmp_path / "named.parquet", memory)
        tables.append(pq.read_table(tmp_path / "named.parquet"))
    assert tables[0].equals(tables[1])
    assert tables[0].column("id").to_pylist() == [f"d{number}" for number in dropped]
    assert tables[0].column("kept_id").to_pylist() == [f"d{number}" for number in kept]
    assert tables[0].column("part").to_pylist() == [7 if number % 3 == 0 else None for number in dropped]


def test_a_table_of_nothing_has_its_columns(tmp_path: Path) -> None:
    shards = shards_in(tmp_path)
    write_duplicates(tmp_path / TABLE, [])
    write_duplicate_table(tmp_path, shards, tmp_path / "named.parquet", 1 << 30)
    empty = pq.read_table(tmp_path / "named.parquet")
    assert empty.num_rows == 0 and empty.column_names[-1] == "kept_line"
    write_spans(tmp_path / SPANS, [], NgramIndex([]))
    write_contamination_table(tmp_path, shards, tmp_path / "found.parquet", 1 << 30)
    found = pq.read_table(tmp_path / "found.parquet")
    assert found.column_names == ["id", "source", "file", "line", "start", "end", "set", "item"]
