"""``mfm dedup --index``: new documents against those of earlier runs, as people type it."""

import hashlib
import json
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from corpus.prepare.raw_texts import write_overlapping

from mindformers_megatron.corpus.dedup.near import NearOptions
from mindformers_megatron.corpus.dedup.near_index import NearIndex

KILLED_BEFORE = """
import os, signal, sys
sys.argv = ["mfm", *sys.argv[2:]]
moment = MOMENT
def kill(event, arguments):
    if event in ("open", "os.rename") and moment in " ".join(map(str, arguments)):
        os.kill(os.getpid(), signal.SIGKILL)
from mindformers_megatron.cli.main import main
sys.addaudithook(kill)
sys.exit(main())
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    write_overlapping(tmp_path)
    return tmp_path


def dedup(place: Path, *arguments: str, code: int = 0, killed_before: str | None = None) -> str:
    command = [sys.executable, "-m", "mindformers_megatron.cli"]
    if killed_before is not None:
        command = [sys.executable, "-c", KILLED_BEFORE.replace("MOMENT", repr(killed_before)), "-"]
    done = subprocess.run([*command, "dedup", *arguments, "--workers", "1"], cwd=place, capture_output=True, text=True)
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    if code > 0:
        assert done.stderr.count("\n") == 1
    return done.stdout + done.stderr


def digests(place: Path) -> dict[str, str]:
    """All files but the raw ones; the page for people has a date in it."""
    files = [path for path in sorted(place.rglob("*")) if path.is_file() and "raw" not in path.parts]
    return {
        path.relative_to(place).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in files
        if path.suffix != ".txt"
    }


def ids(path: Path) -> list[str]:
    return [json.loads(line)["id"] for line in path.read_text().splitlines()]


def held(index: Path) -> list[str]:
    import numpy as np

    opened = NearIndex(index, NearOptions())
    return opened.ids(np.arange(len(opened)))


def test_documents_near_to_earlier_ones_are_dropped_and_the_others_join_them(place: Path) -> None:
    dedup(place, "old.jsonl", "--output", "a.jsonl", "--index", "kept")
    assert held(place / "kept") == ids(place / "a.jsonl")
    told = dedup(place, "new.jsonl", "--output", "b.jsonl", "--index", "kept")
    assert "b.jsonl" in told
    earlier, new = ids(place / "a.jsonl"), ids(place / "b.jsonl")
    assert new and not {*new} & {*earlier}
    assert held(place / "kept") == [*earlier, *new]
    table = pq.read_table(place / "b.jsonl.near_dedup.parquet").to_pylist()
    indexed = [row for row in table if row["kept_source"] is None]
    assert {row["kept_id"] for row in indexed} <= {*earlier}
    same = [row for row in indexed if row["id"] == row["kept_id"]]
    assert len(same) > 5 and all(row["similarity"] == 1 for row in same)
    assert any(row["id"] != row["kept_id"] and 0.7 <= row["similarity"] < 1 for row in indexed)
    statistics = json.loads((place / "b.jsonl.data_stats.json").read_bytes())
    assert statistics["steps"][-1]["sources"]["new"]["dropped"]["in_index"] == len(indexed)
    assert statistics["global_steps"][-1]["in_index"] == len(indexed)
    assert "resemble documents of the index" in (place / "b.jsonl.stats_report.txt").read_text()


def test_a_finished_command_comes_to_the_same_again_also_when_others_have_added_since(place: Path) -> None:
    first = ("old.jsonl", "--output", "a.jsonl", "--index", "kept")
    dedup(place, *first)
    dedup(place, "new.jsonl", "--output", "b.jsonl", "--index", "kept")
    before = digests(place)
    dedup(place, *first)
    assert digests(place) == before
    dedup(place, *first, "--keep", "longest")
    assert {*held(place / "kept")} == {*ids(place / "a.jsonl"), *ids(place / "b.jsonl")}


@pytest.mark.parametrize(
    "moment",
    [
        "b.jsonl.work/b.jsonl/work/near_dedup",
        "b.jsonl.data_stats.json",
        "000002.ids",
        "000002.rows",
        "index.json.tmp kept/index.json",
    ],
)
def test_killed_it_leaves_the_index_and_goes_on_to_the_same(place: Path, moment: str) -> None:
    command = ("new.jsonl", "--output", "b.jsonl", "--index", "kept")
    dedup(place, "old.jsonl", "--output", "a.jsonl", "--index", "kept")
    shutil.copytree(place / "kept", place / "raw" / "kept")
    dedup(place, *command)
    straight = digests(place)
    shutil.rmtree(place / "kept")
    shutil.move(place / "raw" / "kept", place / "kept")
    for path in place.glob("b.jsonl*"):
        path.unlink()
    before = held(place / "kept")
    dedup(place, *command, code=-signal.SIGKILL, killed_before=moment)
    assert held(place / "kept") == before
    assert (place / "b.jsonl").exists() == (moment != "b.jsonl.work/b.jsonl/work/near_dedup")
    dedup(place, *command)
    assert digests(place) == straight


def test_read_only_it_adds_nothing(place: Path) -> None:
    dedup(place, "old.jsonl", "--output", "a.jsonl", "--index", "kept")
    before = digests(place / "kept")
    dedup(place, "new.jsonl", "--output", "b.jsonl", "--index", "kept", "--index-read-only")
    assert digests(place / "kept") == before
    assert not {*ids(place / "b.jsonl")} & {*ids(place / "a.jsonl")}
    dedup(place, "new.jsonl", "--output", "c.jsonl", "--index", "kept")
    assert ids(place / "c.jsonl") == ids(place / "b.jsonl")


def test_where_nothing_is_new_the_output_is_empty_but_replaces_nothing(place: Path) -> None:
    dedup(place, "old.jsonl", "--output", "a.jsonl", "--index", "kept")
    for _ in range(2):
        assert "30 documents read, 0 kept" in dedup(place, "old.jsonl", "--output", "b.jsonl", "--index", "kept")
    assert (place / "b.jsonl").read_bytes() == b""
    (place / "c.jsonl").write_text("mine\n")
    told = dedup(place, "old.jsonl", "--output", "c.jsonl", "--index", "kept", code=1)
    assert "c.jsonl: nothing is new" in told and (place / "c.jsonl").read_text() == "mine\n"


def test_documents_that_an_index_holds_are_not_written_over_by_others(place: Path) -> None:
    dedup(place, "old.jsonl", "--output", "day.jsonl", "--index", "kept")
    before = digests(place)
    told = dedup(place, "new.jsonl", "--output", "day.jsonl", "--index", "kept", code=2)
    assert "day.jsonl: holds what an earlier run with other documents added to kept" in told
    for path in place.rglob("day.jsonl.work"):
        shutil.rmtree(path)
    assert digests(place) == before
    (place / "day.jsonl").rename(place / "day-1.jsonl")
    dedup(place, "new.jsonl", "--output", "day.jsonl", "--index", "kept")
    assert held(place / "kept") == [*ids(place / "day-1.jsonl"), *ids(place / "day.jsonl")]


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("--index", "kept", "--near", "0.8"), 2, "threshold 0.7, asked for is 0.8"),
        (("--index", "kept", "--ngram", "7"), 2, "ngram 5, asked for is 7"),
        (("--index", "new.jsonl"), 2, "new.jsonl: no folder"),
        (("--index", "nothing", "--index-read-only"), 2, "nothing: there is no index"),
        (("--index-read-only",), 2, "index_read_only is given, but no index"),
        (("--index", "kept", "--no-near"), 2, "give one of the two"),
        (("--index", "redis://somewhere/x"), 2, "redis://HOST:PORT/DATABASE?index=NAME"),
    ],
)
def test_mistakes_are_one_line(place: Path, arguments: tuple[str, ...], code: int, message: str) -> None:
    dedup(place, "old.jsonl", "--output", "a.jsonl", "--index", "kept")
    before = digests(place)
    assert message in dedup(place, "new.jsonl", "--output", "b.jsonl", *arguments, code=code)
    assert digests(place) == before and not (place / "nothing").exists()


def test_while_one_run_is_to_add_another_is_refused(place: Path) -> None:
    with NearIndex(place / "kept", NearOptions()).claim():
        told = dedup(place, "new.jsonl", "--output", "b.jsonl", "--index", "kept", code=2)
    assert "another process is writing it" in told
    assert not (place / "kept").exists()
