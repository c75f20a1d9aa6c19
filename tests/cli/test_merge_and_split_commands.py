"""``mfm merge``, ``tools/merge_datasets.py`` and ``mfm split`` as processes."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from pairs import GOLDEN, write_corpus

from mindformers_megatron.format.index import read_index

ROOT = Path(__file__).parent.parent.parent
MFM = str(Path(sys.executable).parent / "mfm")
TOOL = [sys.executable, str(ROOT / "tools" / "merge_datasets.py")]
PREPROCESSED = GOLDEN / "preprocess"


def run(*command: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(word) for word in command], cwd=cwd, capture_output=True, text=True, check=False)


def content(prefix: Path) -> tuple[bytes, bytes]:
    return Path(f"{prefix}.bin").read_bytes(), Path(f"{prefix}.idx").read_bytes()


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of pairs tokenized one by one from the pieces of Megatron's own input."""
    folder = tmp_path_factory.mktemp("prepared")
    lines = (PREPROCESSED / "input.jsonl").read_bytes().splitlines(keepends=True)
    for number, begin in enumerate(range(0, len(lines), 50)):
        (folder / f"{number}.jsonl").write_bytes(b"".join(lines[begin : begin + 50]))
        options = [
            "--tokenizer",
            PREPROCESSED / "tokenizer",
            "--append-eod",
            "--output-prefix",
            f"parts/shard_{number}",
        ]
        done = run(MFM, "preprocess", "--input", f"{number}.jsonl", "--engine", "hf", *options, cwd=folder)
        assert done.returncode == 0, done.stderr
    return folder / "parts"


@pytest.fixture
def parts(tmp_path: Path, prepared: Path) -> Path:
    """The same, to be written into."""
    return Path(shutil.copytree(prepared, tmp_path / "parts"))


def test_merged_parts_are_what_megatron_makes_of_the_whole(tmp_path: Path, parts: Path) -> None:
    done = run(*TOOL, "--input", parts, "--output-prefix", parts / "merged", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"{parts}/merged.bin/.idx: 3 parts, 139 documents, 69,564 tokens (uint16)\n"
    assert content(parts / "merged") == content(PREPROCESSED / "eod_text_document")
    metadata = json.loads((parts / "merged.metadata.json").read_text())
    assert [source["path"] for source in metadata["sources"]] == ["0.jsonl", "1.jsonl", "2.jsonl"]
    run(MFM, "split", parts / "merged", "--output-prefix", "again", "--documents-per-shard", "100", cwd=tmp_path)
    shards = [json.loads((tmp_path / f"again_{k:05}-of-00002.metadata.json").read_text()) for k in range(2)]
    assert [[source["path"] for source in shard["sources"]] for shard in shards] == [
        ["0.jsonl", "1.jsonl"],
        ["2.jsonl"],
    ]
    # What was written into the folder is no part of it the next time.
    again = run(*TOOL, "--input", parts, "--output-prefix", parts / "merged", cwd=tmp_path)
    assert again.stdout == done.stdout


def test_parts_are_named_as_a_shell_names_them(tmp_path: Path, parts: Path) -> None:
    named = sorted(parts.glob("shard_[01]*"))
    done = run(MFM, "merge", *named, "--output-prefix", "new/merged", "--json", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    summary = json.loads(done.stdout)
    assert [Path(part).name for part in summary["parts"]] == ["shard_0_text_document", "shard_1_text_document"]
    assert (summary["documents"], summary["metadata"], summary["docs"]) == (100, True, True)


def test_shards_merged_again_are_the_whole(tmp_path: Path) -> None:
    for suffix in ("bin", "idx"):
        shutil.copy(PREPROCESSED / f"eod_text_document.{suffix}", tmp_path / f"whole.{suffix}")
    done = run(MFM, "split", "whole", "--output-prefix", "shards/s", "--tokens-per-shard", "9000", cwd=tmp_path)
    assert done.returncode == 0
    assert done.stderr.splitlines() == [
        "mfm split: warning: whole.metadata.json is not there, so no metadata was written",
        "mfm split: warning: whole.docs.parquet is not there, so no provenance was written",
    ]
    count = len(done.stdout.splitlines())
    assert done.stdout.startswith(f"shards/s_00000-of-{count:05}.bin/.idx: ")
    merged = run(MFM, "merge", "shards", "--output-prefix", "again", cwd=tmp_path)
    assert merged.stdout.startswith(f"again.bin/.idx: {count} parts, 139 documents, ")
    assert len(merged.stderr.splitlines()) == 2
    assert content(tmp_path / "again") == content(tmp_path / "whole")
    other = run(MFM, "split", "whole", "--output-prefix", "shards/s", "--shards", "3", cwd=tmp_path)
    assert other.returncode == 2
    assert f"is one of {count} shards of an earlier split, and now there are 3" in other.stderr


def test_train_valid_and_test_are_cut_where_megatron_cuts_them(tmp_path: Path) -> None:
    write_corpus(tmp_path / "whole", [[1, 2]] * 1000)
    done = run(MFM, "split", "whole.idx", "--output-prefix", "out", "--split", "969,30,1", "--json", cwd=tmp_path)
    summary = json.loads(done.stdout)["parts"]
    found = [(part["prefix"], part["first_document"], part["documents"]) for part in summary]
    assert found == [("out_train", 0, 969), ("out_valid", 969, 30), ("out_test", 999, 1)]
    run(MFM, "split", "whole", "--output-prefix", "two", "--split", "98,2,0", cwd=tmp_path)
    assert sorted(path.name for path in tmp_path.glob("two*.idx")) == ["two_train.idx", "two_valid.idx"]


def test_equal_shards_for_ranks(tmp_path: Path) -> None:
    write_corpus(tmp_path / "whole", [[1] * (k % 7 + 1) for k in range(800)])
    run(MFM, "split", "whole", "--output-prefix", "rank", "--shards", "8", cwd=tmp_path)
    sizes = [read_index(tmp_path / f"rank_{k:05}-of-00008").num_tokens for k in range(8)]
    assert max(sizes) - min(sizes) <= 7


@pytest.mark.parametrize(
    ("command", "code", "message"),
    [
        (["merge", "folder", "wide", "--output-prefix", "out"], 1,
         "out: the parts have tokens of different types: uint16 in folder/a; int32 in wide; they were made for "
         "different vocabularies: make them again with one tokenizer"),
        (["merge", "nowhere", "--output-prefix", "out"], 1, "nowhere: no such pair: neither nowhere.bin nor"),
        (["merge", "empty", "--output-prefix", "out"], 2, "empty: no .bin/.idx pairs in this folder"),
        (["merge", "wide", "--output-prefix", "wide.bin"], 2, "wide: is one of the parts to join"),
        (["split", "wide", "--output-prefix", "out", "--shards", "4"], 2, "3 documents cannot be cut into 4 parts"),
        (["split", "wide", "--output-prefix", "out", "--split", "969,30,1"], 2, "leaves no document for 'valid'"),
        (["split", "wide", "--output-prefix", "out", "--split", "1e-3,1"], 2, "is no plain number"),
        (["split", "wide", "--output-prefix", "wide", "--documents-per-shard", "0"], 2, "give 1 or more"),
    ],
)  # fmt: skip
def test_what_cannot_be_done_is_said_in_one_line(tmp_path: Path, command: list[str], code: int, message: str) -> None:
    for name in ("folder", "empty"):
        (tmp_path / name).mkdir()
    write_corpus(tmp_path / "folder" / "a", [[1]])
    write_corpus(tmp_path / "wide", [[1], [2], [3]], np.int32)
    done = run(MFM, *command, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (code, "")
    assert done.stderr.startswith(f"mfm {command[0]}: ")
    assert message in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert not list(tmp_path.glob("out*"))
