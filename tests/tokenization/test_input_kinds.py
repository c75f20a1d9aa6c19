"""Inputs other than plain files of JSONL."""

import bz2
import gzip
import hashlib
import io
import json
import lzma
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from runs import GOLDEN, assert_golden, run

from mindformers_megatron.errors import DataError
from mindformers_megatron.format.metadata import read_metadata

zstandard = pytest.importorskip("zstandard")

COMPRESS: dict[str, Callable[[bytes], bytes]] = {
    "gz": gzip.compress,
    "zst": zstandard.ZstdCompressor(write_checksum=True).compress,
    "xz": lzma.compress,
    "bz2": bz2.compress,
}
CONTENT = (GOLDEN / "input.jsonl").read_bytes()
RECORDS = [json.loads(line) for line in CONTENT.splitlines()]


def rows(prefix: Path) -> list[dict[str, Any]]:
    return pq.read_table(f"{prefix}_text_document.docs.parquet").to_pylist()


@pytest.mark.parametrize("suffix", COMPRESS)
@pytest.mark.parametrize("part_bytes", [20_000, None])
def test_compressed_files_give_the_same_pair(suffix: str, part_bytes: int | None, tmp_path: Path) -> None:
    half = CONTENT.index(b"\n", len(CONTENT) // 2) + 1
    path = tmp_path / f"input.jsonl.{suffix}"
    # Two members, one behind the other, as tools that compress in parallel write.
    path.write_bytes(COMPRESS[suffix](CONTENT[:half]) + COMPRESS[suffix](CONTENT[half:]))
    report = run(path, tmp_path / "out", part_bytes=part_bytes, workers=2)
    assert_golden(tmp_path / "out")
    assert report.counts.lines == len(RECORDS)
    for number, row in enumerate(rows(tmp_path / "out")):
        assert row["line"] == number + 1
        assert CONTENT[: row["byte_offset"]].count(b"\n") == number
    metadata = read_metadata(tmp_path / "out_text_document")
    assert metadata is not None
    assert metadata.sources[0].sha256 == hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.mark.parametrize("suffix", COMPRESS)
def test_a_file_that_was_cut_off_or_damaged_is_named(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"input.jsonl.{suffix}"
    whole = COMPRESS[suffix](CONTENT)
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(DataError, match=rf"input\.jsonl\.{suffix}: (ends in the middle of|its .* data is damaged)"):
        run(path, tmp_path / "out")
    assert not list(tmp_path.glob("out_*"))
    path.write_bytes(whole[:200] + bytes(50) + whole[250:])
    with pytest.raises(DataError, match=rf"input\.jsonl\.{suffix}: .*damaged"):
        run(path, tmp_path / "out")


@pytest.mark.parametrize("suffix", COMPRESS)
@pytest.mark.parametrize("engine", ["hf", "gigatoken", "tiktoken"])
def test_bad_lines_have_their_place_in_the_content(suffix: str, engine: str, tmp_path: Path) -> None:
    pytest.importorskip(engine if engine != "hf" else "tokenizers")
    bad = [b'{"text": "b"\n', b'{"txt": 1}\n', b'{"text": 3}\n', b'{"text": "\0"}\n', b'{"text": "\xff"}\n', b"[]\n"]
    content = b'{"text": "a"}\n' * 10 + b"\n" + b"".join(bad) + b'{"text": "z"}'
    path = tmp_path / f"input.jsonl.{suffix}"
    path.write_bytes(COMPRESS[suffix](content))
    report = run(path, tmp_path / "out", engine=engine, part_bytes=30, workers=2, rejects_allowed=None)
    listed = [json.loads(line) for line in (tmp_path / "out.rejected.jsonl").read_bytes().splitlines()]
    assert [entry["line"] for entry in listed] == list(range(12, 18))
    assert [content[entry["byte_offset"] :].startswith(line) for entry, line in zip(listed, bad, strict=True)] == [
        True
    ] * 6
    assert (report.counts.documents, report.counts.blanks) == (11, 1)
    with pytest.raises(DataError, match=r"line 12 \(byte 141\): it is not valid JSON"):
        run(path, tmp_path / "out", engine=engine, part_bytes=30)


def test_parquet_gives_the_same_pair(tmp_path: Path) -> None:
    path = tmp_path / "input.parquet"
    pq.write_table(pa.Table.from_pylist(RECORDS), path, row_group_size=30)
    report = run(path, tmp_path / "out", workers=2, part_bytes=10_000)
    assert_golden(tmp_path / "out")
    found = rows(tmp_path / "out")
    assert [row["line"] for row in found] == list(range(1, len(RECORDS) + 1))
    assert [row["id"] for row in found] == [record["id"] for record in RECORDS]
    assert [row["source"] for row in found] == [record["meta"]["source"] for record in RECORDS]
    assert report.counts.documents == len(RECORDS)


def test_bad_rows_and_columns_of_parquet_are_named(tmp_path: Path) -> None:
    path = tmp_path / "input.parquet"
    pq.write_table(pa.table({"text": ["a", None, "b"], "n": [1, 2, 3]}), path)
    with pytest.raises(DataError, match=r"line 2 .*'text' is null, not a string"):
        run(path, tmp_path / "out")
    with pytest.raises(DataError, match=r"has no column 'body' \(its columns: text, n\)"):
        run(path, tmp_path / "out", json_keys=("body",))
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(DataError, match="cannot be read as Parquet"):
        run(path, tmp_path / "out")


def test_standard_input_is_read_as_it_comes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(CONTENT)))
    run(["-"], tmp_path / "out", part_bytes=20_000, workers=2)
    assert_golden(tmp_path / "out")
    metadata = read_metadata(tmp_path / "out_text_document")
    assert metadata is not None
    assert (metadata.sources[0].path, metadata.sources[0].sha256) == ("-", hashlib.sha256(CONTENT).hexdigest())


def test_a_folder_of_many_small_files_is_read_in_the_order_of_their_names(tmp_path: Path) -> None:
    folder = tmp_path / "shards"
    (folder / "deep").mkdir(parents=True)
    lines = CONTENT.splitlines(keepends=True)
    for number, line in enumerate(lines):
        name = f"{number:04}.jsonl" if number < 100 else f"deep/{number:04}.jsonl.gz"
        (folder / name).write_bytes(line if number < 100 else gzip.compress(line))
    (folder / "notes.txt").write_text("no records")
    report = run(folder, tmp_path / "out", part_bytes=30_000, workers=2)
    assert_golden(tmp_path / "out")
    assert report.input_files == len(lines)
    found = rows(tmp_path / "out")
    assert [row["line"] for row in found] == [1] * len(lines)
    assert [Path(row["file"]).name[:4] for row in found] == [f"{number:04}" for number in range(len(lines))]


def test_a_name_given_to_an_input_is_what_it_is_counted_under(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / f"{name}.jsonl").write_text('{"text": "a", "source": "theirs"}\n{"text": "b"}\n')
    report = run([f"mine={tmp_path}/one.jsonl", str(tmp_path / "two.jsonl")], tmp_path / "out")
    assert dict(report.counts.documents_of) == {"mine": 2, "theirs": 1, "two": 1}
    page = (tmp_path / "out.stats_report.txt").read_text()
    assert "- mine: 2 tokens (50.0%), 2 documents" in page
    statistics = json.loads((tmp_path / "out.data_stats.json").read_text())
    assert statistics["sources"]["mine"] == {"documents": 2, "tokens": 2}
