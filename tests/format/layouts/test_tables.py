"""Columns of token ids become pairs, and pairs become columns."""

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tokenized import Pair

from mindformers_megatron.errors import ConfigError, DataError
from mindformers_megatron.format.convert import Conversion, ConvertedPair, convert
from mindformers_megatron.format.export import export_table
from mindformers_megatron.format.paths import bin_path, docs_path, idx_path
from mindformers_megatron.format.provenance import read_docs
from mindformers_megatron.format.reader import IndexedDataset
from mindformers_megatron.format.verify.pair import verify_pair
from mindformers_megatron.format.writer import IndexedDatasetWriter

ROWS = [[5, 6, 7], [], [70_000], [1, 2]]


def write_parquet(path: Path, rows: Any, kind: pa.DataType, **columns: Any) -> Path:
    pq.write_table(pa.table({"input_ids": pa.array(rows, kind), **columns}), path, row_group_size=2)
    return path


def converted(source: Path, **asked: Any) -> ConvertedPair:
    return convert(Conversion(source=source, prefix=str(source.parent / "pair"), **asked))


def documents(pair: ConvertedPair) -> list[list[int]]:
    dataset = IndexedDataset(pair.prefix)
    bounds = dataset.index.document_indices.tolist()
    return [dataset[begin].tolist() if end > begin else [] for begin, end in pairwise(bounds)]


@pytest.mark.parametrize("kind", [pa.list_(pa.int32()), pa.large_list(pa.int64()), pa.list_(pa.uint32())], ids=str)
def test_each_row_is_a_document(tmp_path: Path, kind: pa.DataType) -> None:
    done = converted(write_parquet(tmp_path / "t.parquet", ROWS, kind))
    assert documents(done) == ROWS
    assert (done.dtype, done.largest_id, done.common_end) == ("int32", 70_000, None)
    assert verify_pair(done.prefix, full=True).sound


def test_rows_of_one_length_may_be_of_a_type_that_says_so(tmp_path: Path) -> None:
    rows = [[1, 2, 9], [3, 4, 9]]
    done = converted(write_parquet(tmp_path / "t.parquet", rows, pa.list_(pa.int16(), 3)), vocab_size=10)
    assert (documents(done), done.dtype, done.common_end) == (rows, "uint16", 9)


@pytest.mark.parametrize("form", ["stream", "file"])
def test_arrow_is_read_in_both_its_forms(tmp_path: Path, form: str) -> None:
    table = pa.table({"input_ids": pa.array(ROWS, pa.list_(pa.int32()))})
    path = tmp_path / "t.arrow"
    with (pa.ipc.new_stream if form == "stream" else pa.ipc.new_file)(path, table.schema) as writer:
        writer.write_table(table, max_chunksize=3)
    assert documents(converted(path)) == ROWS


def test_what_datasets_saved_is_read_and_what_is_written_datasets_reads(tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    table = datasets.Dataset.from_dict({"input_ids": ROWS})
    table.save_to_disk(tmp_path / "saved")
    done = converted(tmp_path / "saved")
    assert documents(done) == ROWS
    export_table(done.prefix, tmp_path / "written", "arrow")
    assert datasets.Dataset.from_file(str(tmp_path / "written.arrow"))["input_ids"][:] == ROWS
    datasets.DatasetDict(train=table).save_to_disk(tmp_path / "splits")
    with pytest.raises(ConfigError, match="has the splits train"):
        converted(tmp_path / "splits")
    (tmp_path / "saved" / "state.json").write_text('{"_data_files": [{"filename": "../x"}]}')
    with pytest.raises(DataError, match="outside of its folder"):
        converted(tmp_path / "saved")


def test_the_files_of_a_folder_are_read_by_name(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    for place, row in enumerate(ROWS):
        write_parquet(folder / f"{place}.parquet", [row], pa.list_(pa.int32()))
    assert documents(converted(folder)) == ROWS


@pytest.mark.parametrize("kind", ["parquet", "arrow"])
def test_a_pair_written_as_a_table_comes_back_with_sequences_and_provenance(
    original: Pair, tmp_path: Path, kind: str
) -> None:
    path = export_table(original.prefix, tmp_path / "table", kind, column="tokens")
    done = converted(path, column="tokens", dtype=np.dtype(np.uint16))
    assert Pair(done.prefix, tmp_path).files() == original.files()
    rows = [pa.Table.from_batches(list(read_docs(prefix))) for prefix in (original.prefix, done.prefix)]
    assert rows[0].equals(rows[1])


def test_a_pair_without_provenance_is_a_table_without(tmp_path: Path, make_corpus: Any) -> None:
    prefix = make_corpus("plain", [3, 4, 5])
    path = export_table(prefix, tmp_path / "table", "parquet")
    assert pq.read_schema(path).names == ["input_ids"]
    done = converted(path, dtype=np.dtype(np.uint16))
    assert bin_path(done.prefix).read_bytes() == bin_path(prefix).read_bytes()
    assert idx_path(done.prefix).read_bytes() == idx_path(prefix).read_bytes()
    assert not docs_path(done.prefix).exists()


@pytest.mark.parametrize(
    ("rows", "kind", "said"),
    [
        ([[1], None], pa.list_(pa.int32()), "row 1 has no input_ids"),
        ([[1], [2, None]], pa.list_(pa.int32()), "row 1 has a null among its input_ids"),
        ([[1], [-2]], pa.list_(pa.int32()), "document 1, token 0: found id -2"),
        ([[1], [2**40]], pa.list_(pa.int64()), "does not fit the int32"),
        ([[1.5]], pa.list_(pa.float64()), "expected lists of integers"),
        ([1], pa.int64(), "expected lists of integers"),
        (["text"], pa.string(), "expected lists of integers"),
        ([[]], pa.list_(pa.int32()), "has no tokens"),
    ],
)
def test_what_is_no_token_id_is_refused(tmp_path: Path, rows: Any, kind: pa.DataType, said: str) -> None:
    path = write_parquet(tmp_path / "t.parquet", rows, kind)
    with pytest.raises(DataError, match=said):
        converted(path)
    assert [file.name for file in tmp_path.iterdir()] == ["t.parquet"]


def test_lengths_of_sequences_must_add_up(tmp_path: Path) -> None:
    lengths = pa.array([[1, 2], [], [2], [2]], pa.list_(pa.int32()))
    path = write_parquet(tmp_path / "t.parquet", ROWS, pa.list_(pa.int32()), sequence_lengths=lengths)
    with pytest.raises(DataError, match="sequence_lengths of row 2 do not add up"):
        converted(path)


def test_files_that_are_no_tables_and_folders_without_are_refused(tmp_path: Path) -> None:
    for name in ("t.parquet", "t.arrow"):
        (tmp_path / name).write_bytes(b"nonsense" * 10)
        with pytest.raises(DataError, match="cannot be read"):
            converted(tmp_path / name)
    (tmp_path / "empty").mkdir()
    with pytest.raises(ConfigError, match=r"no \.parquet"):
        converted(tmp_path / "empty")
    write_parquet(tmp_path / "t.parquet", ROWS, pa.list_(pa.int32()))
    with pytest.raises(DataError, match=r"has no column 'ids' \(it has input_ids\)"):
        converted(tmp_path / "t.parquet", column="ids")


def test_a_pair_without_documents_is_no_table(tmp_path: Path) -> None:
    with IndexedDatasetWriter(tmp_path / "empty", np.uint16):
        pass
    with pytest.raises(ConfigError, match="has no documents"):
        export_table(tmp_path / "empty", tmp_path / "table", "parquet")
