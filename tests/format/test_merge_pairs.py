"""What is known about the parts is known about the whole, as far as they agree."""

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from test_metadata import METADATA, TOKENIZER

from mindformers_megatron.errors import ConfigError, DataError
from mindformers_megatron.format.folders import pairs_in
from mindformers_megatron.format.index import read_index
from mindformers_megatron.format.merge import join_pairs, merge_pairs
from mindformers_megatron.format.metadata import (
    SourceInfo,
    TokenizerInfo,
    check_metadata,
    read_metadata,
    write_metadata,
)
from mindformers_megatron.format.provenance import DocsWriter

Write = Callable[..., str]


@pytest.fixture
def part(tmp_path: Path, write: Write) -> Callable[..., str]:
    """``part(name, **fields)`` writes a pair of two documents whose metadata has these fields."""

    def make(name: str, tokenizer: TokenizerInfo = TOKENIZER, *, docs: bool = True, **fields: Any) -> str:
        prefix = write(tmp_path / name, [[[1, 2]], [[3]]])
        if docs:
            with DocsWriter(prefix) as writer:
                writer.add(["x", "y"], source=name, file=name, lines=[1, 2], byte_offsets=[0, 9], metas=[None, "{}"])
        source = SourceInfo(path=name, size=1, sha256=None)
        counts = {"documents": 2, "sequences": 2, "tokens": 3, "sources": (source,), **fields}
        write_metadata(prefix, dataclasses.replace(METADATA, tokenizer=tokenizer, **counts))
        return prefix

    return make


def test_the_whole_has_the_metadata_rows_and_checksums_of_its_parts(tmp_path: Path, part: Callable[..., str]) -> None:
    prefixes = [part("a"), part("b")]
    merged = merge_pairs(prefixes, tmp_path / "all")
    metadata = read_metadata(merged.prefix)
    assert metadata is not None
    check_metadata(metadata, read_index(merged.prefix))
    assert metadata.bin_sha256 == merged.written.bin_sha256
    assert [source.path for source in metadata.sources] == ["a", "b"]
    assert (metadata.options, metadata.seq_length) == (METADATA.options, 2048)
    rows = pq.read_table(merged.prefix + ".docs.parquet").to_pylist()
    assert [(row["source"], row["line"]) for row in rows] == [("a", 1), ("a", 2), ("b", 1), ("b", 2)]
    assert merged.warnings == ()


def test_what_the_parts_differ_in_is_left_out_and_said(tmp_path: Path, part: Callable[..., str]) -> None:
    other = dataclasses.replace(TOKENIZER, name="copy/qwen", engine="gigatoken", engine_version="0.10.0")
    prefixes = [part("a"), part("b", other, seq_length=4096, options={"append_eod": False, "json_key": "text"})]
    merged = merge_pairs(prefixes, tmp_path / "all")
    metadata = read_metadata(merged.prefix)
    assert metadata is not None
    assert (metadata.options, metadata.seq_length) == ({"json_key": "text"}, None)
    assert (metadata.tokenizer.name, metadata.tokenizer.engine) == ("models/qwen", "hf + gigatoken")
    (warning,) = merged.warnings
    assert warning.startswith("the parts differ in append_eod: True in ")


@pytest.mark.parametrize(
    ("verdicts", "merged"),
    [
        (("", ""), ""),
        (("equal", ""), "equal"),
        (("equal", "equal"), "equal"),
        (("a", "b"), "a + b"),
        (("a", None), None),
    ],
)
def test_what_was_found_about_the_engines_is_said_of_the_whole(
    tmp_path: Path, part: Callable[..., str], verdicts: tuple[str | None, str | None], merged: str | None
) -> None:
    prefixes = [
        part(name, dataclasses.replace(TOKENIZER, engine_verdict=verdict))
        for name, verdict in zip("ab", verdicts, strict=True)
    ]
    metadata = read_metadata(merge_pairs(prefixes, tmp_path / "all").prefix)
    assert metadata is not None
    assert metadata.tokenizer.engine_verdict == merged


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"tokenizer": dataclasses.replace(TOKENIZER, files={"tokenizer.json": "ee" * 32})}, "different files"),
        ({"eod_id": 0}, "EOD id 2 and 0"),
        ({"vocab_size": 32_001}, "vocabulary size 32000 and 32001"),
    ],
)
def test_parts_of_different_tokenizers_are_refused_with_both_fingerprints(
    tmp_path: Path, part: Callable[..., str], write: Write, fields: dict[str, Any], named: str
) -> None:
    bare = write(tmp_path / "bare", [[[1]]])
    prefixes = [part("a"), bare, part("b", **fields)]
    a, b = (read_metadata(prefixes[k]) for k in (0, 2))
    assert a is not None
    assert b is not None
    with pytest.raises(DataError, match=named) as refusal:
        merge_pairs(prefixes, tmp_path / "all")
    assert a.tokenizer_fingerprint[:16] in str(refusal.value)
    assert b.tokenizer_fingerprint[:16] in str(refusal.value)
    assert not list(tmp_path.glob("all*"))


def test_one_part_without_metadata_or_provenance_makes_a_whole_without(
    tmp_path: Path, part: Callable[..., str], write: Write
) -> None:
    prefixes = [part("a"), write(tmp_path / "bare", [[[1]]])]
    for stale in ("metadata.json", "docs.parquet"):
        (tmp_path / f"all.{stale}").write_text("of an older pair")
    merged = merge_pairs(prefixes, tmp_path / "all")
    assert (merged.has_metadata, merged.has_docs) == (False, False)
    assert [warning.partition(",")[0] for warning in merged.warnings] == [
        "no metadata written",
        "no provenance written",
    ]
    assert sorted(path.name for path in tmp_path.glob("all*")) == ["all.bin", "all.idx", "all.md5"]


def test_damaged_provenance_leaves_nothing_behind(tmp_path: Path, part: Callable[..., str]) -> None:
    prefixes = [part("a"), part("b")]
    path = Path(prefixes[1] + ".docs.parquet")
    path.write_bytes(path.read_bytes()[:-4] + b"oops")
    with pytest.raises(DataError, match=r"b\.docs\.parquet: cannot be read as Parquet"):
        merge_pairs(prefixes, tmp_path / "all")
    assert not list(tmp_path.glob("all*"))


def test_metadata_of_another_pair_is_refused(tmp_path: Path, part: Callable[..., str]) -> None:
    with pytest.raises(DataError, match="tokens 4, but the pair has 3"):
        merge_pairs([part("a"), part("b", tokens=4)], tmp_path / "all")


def test_a_folder_gives_its_pairs_by_name_and_not_the_one_to_be_written(tmp_path: Path, write: Write) -> None:
    for name in ("part_10", "part_2", "all", "part.v1"):
        write(tmp_path / name, [[[1]]])
    (tmp_path / "part_2.metadata.json").write_text("{}")
    (tmp_path / "notes.txt").touch()
    (tmp_path / "folder.bin").mkdir()
    names = [Path(prefix).name for prefix in pairs_in(tmp_path, leave_out=tmp_path / "." / "all.bin")]
    # As strings, like Megatron: 10 before 2.
    assert names == ["part.v1", "part_10", "part_2"]
    assert len(pairs_in(tmp_path)) == 4


def test_half_a_pair_no_pair_and_no_folder_are_refused(tmp_path: Path, write: Write) -> None:
    with pytest.raises(ConfigError, match="pairs in this folder"):
        pairs_in(tmp_path)
    with pytest.raises(ConfigError, match="is no folder that can be read: No such file"):
        pairs_in(tmp_path / "none")
    Path(write(tmp_path / "part", [[[1]]]) + ".idx").unlink()
    with pytest.raises(DataError, match=r"part\.idx: not found, but the other file"):
        pairs_in(tmp_path)


def test_joining_alone_writes_nothing_beside_the_pair(tmp_path: Path, part: Callable[..., str]) -> None:
    join_pairs([part("a")], tmp_path / "all")
    assert sorted(path.name for path in tmp_path.glob("all*")) == ["all.bin", "all.idx"]
