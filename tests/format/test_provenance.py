from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mindformers_megatron.errors import ConfigError, DataError
from mindformers_megatron.format.provenance import DocsWriter


def add(writer: DocsWriter, count: int, first: int = 0) -> None:
    numbers = range(first, first + count)
    writer.add(
        [None if i % 3 == 0 else f"id-{i}" for i in numbers],
        source="wiki",
        file="语料/wiki.jsonl",
        lines=[i + 1 for i in numbers],
        byte_offsets=[100 * i for i in numbers],
        metas=[f'{{"rank": {i}}}' if i % 2 else None for i in numbers],
    )


def test_rows_come_back_in_order(tmp_path: Path) -> None:
    with DocsWriter(tmp_path / "x") as writer:
        add(writer, 2)
        add(writer, 0)
        add(writer, 3, 2)
        assert writer.rows == 5
    table = pq.read_table(tmp_path / "x.docs.parquet")
    assert table.column_names == ["id", "source", "file", "line", "byte_offset", "meta"]
    assert table["id"].to_pylist() == [None, "id-1", "id-2", None, "id-4"]
    assert table["line"].to_pylist() == [1, 2, 3, 4, 5]
    assert table["byte_offset"].to_pylist() == [0, 100, 200, 300, 400]
    assert table["meta"].to_pylist() == [None, '{"rank": 1}', None, '{"rank": 3}', None]
    assert set(table["file"].to_pylist()) == {"语料/wiki.jsonl"}


def test_rows_are_written_in_groups_as_they_come_and_compressed(tmp_path: Path) -> None:
    with DocsWriter(tmp_path / "x") as writer:
        for first in range(0, 300_000, 1000):
            add(writer, 1000, first)
    with pq.ParquetFile(tmp_path / "x.docs.parquet") as file:
        assert file.metadata.num_rows == 300_000
        assert file.metadata.num_row_groups == 3
        assert file.metadata.row_group(0).column(0).compression == "ZSTD"
    assert (tmp_path / "x.docs.parquet").stat().st_size < 300_000 * 12


def test_parts_are_joined(tmp_path: Path) -> None:
    for name in ("a", "b"):
        with DocsWriter(tmp_path / name) as writer:
            add(writer, 3)
    with DocsWriter(tmp_path / "joined") as writer:
        writer.add_from(tmp_path / "a")
        writer.add_from(tmp_path / "b.bin")
    rows = pq.read_table(tmp_path / "a.docs.parquet").to_pylist()
    assert pq.read_table(tmp_path / "joined.docs.parquet").to_pylist() == rows * 2


def test_no_rows_are_a_file_without_rows(tmp_path: Path) -> None:
    with DocsWriter(tmp_path / "x"):
        pass
    assert pq.read_table(tmp_path / "x.docs.parquet").num_rows == 0


def test_an_exception_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(KeyError), DocsWriter(tmp_path / "x") as writer:
        add(writer, 3)
        raise KeyError
    assert not list(tmp_path.iterdir())


def test_text_that_is_not_unicode_is_refused_in_one_line(tmp_path: Path) -> None:
    with DocsWriter(tmp_path / "x") as writer, pytest.raises(DataError, match=r"wiki.*not valid Unicode"):
        writer.add(["\ud800"], source="wiki", file="wiki.jsonl", lines=[1], byte_offsets=[0], metas=[None])


def test_parts_that_are_missing_damaged_or_of_another_kind_are_refused(tmp_path: Path) -> None:
    (tmp_path / "damaged.docs.parquet").write_bytes(b"PAR1 and nothing else PAR1")
    pq.write_table(pa.table({"text": ["a"]}), tmp_path / "other.docs.parquet")
    with DocsWriter(tmp_path / "x") as writer:
        for name, complaint in (("none", "not found"), ("damaged", "cannot be read"), ("other", "expected")):
            with pytest.raises(DataError, match=complaint) as caught:
                writer.add_from(tmp_path / name)
            assert "\n" not in str(caught.value)


def test_a_folder_that_does_not_exist_is_a_config_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="No such file or directory"):
        DocsWriter(tmp_path / "none" / "x")
