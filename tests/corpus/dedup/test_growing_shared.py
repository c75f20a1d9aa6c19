"""Runs one after the other and at once, against one index in Redis."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from corpus.prepare.raw_texts import write_overlapping

redis = pytest.importorskip("redis")
pytestmark = pytest.mark.slow

KILLED_WHEN_PUBLISHED = """
import os, signal, sys
sys.argv = ["mfm", *sys.argv[1:]]
from mindformers_megatron.cli.main import main
from mindformers_megatron.corpus.dedup.shared_index import SharedIndex
# All is added, and nothing says so yet.
SharedIndex.complete = lambda self, addition: os.kill(os.getpid(), signal.SIGKILL)
sys.exit(main())
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    write_overlapping(tmp_path)
    return tmp_path


@pytest.fixture
def address(server, request: pytest.FixtureRequest) -> str:
    return f"redis://{server['host']}:{server['port']}/1?index={request.node.name}"


def dedup(place: Path, *arguments: str, code: int = 0, program: tuple[str, ...] = ()) -> str:
    command = [sys.executable, *(program or ("-m", "mindformers_megatron.cli")), "dedup", *arguments, "--workers", "1"]
    done = subprocess.run(command, cwd=place, capture_output=True, text=True)
    assert done.returncode == code, done.stderr
    return done.stderr


def ids(path: Path) -> list[str]:
    return [json.loads(line)["id"] for line in path.read_text().splitlines()]


def test_it_keeps_what_an_index_on_disk_keeps(place: Path, address: str) -> None:
    for index, name in ((address, "shared"), ("kept", "disk")):
        for raw in ("old", "new"):
            dedup(place, f"{raw}.jsonl", "--output", f"{raw}.{name}.jsonl", "--index", index)
    for raw in ("old", "new"):
        assert ids(place / f"{raw}.shared.jsonl") == ids(place / f"{raw}.disk.jsonl")
    assert ids(place / "new.shared.jsonl")
    kept = {path.name: path.read_bytes() for path in place.glob("*.shared.jsonl*") if path.suffix != ".txt"}
    for raw in ("old", "new"):
        dedup(place, f"{raw}.jsonl", "--output", f"{raw}.shared.jsonl", "--index", address)
    assert {name: (place / name).read_bytes() for name in kept} == kept


def test_what_a_killed_run_has_added_counts_when_it_has_gone_on(place: Path, address: str) -> None:
    first = ("old.jsonl", "--output", "a.jsonl", "--index", address)
    dedup(place, *first, code=-9, program=("-c", KILLED_WHEN_PUBLISHED))
    published = ids(place / "a.jsonl")
    read_only = ("old.jsonl", "--output", "b.jsonl", "--index", address, "--index-read-only")
    dedup(place, *read_only)
    assert ids(place / "b.jsonl") == published
    dedup(place, *first)
    assert ids(place / "a.jsonl") == published
    dedup(place, "old.jsonl", "--output", "c.jsonl", "--index", address)
    assert ids(place / "c.jsonl") == []


def test_an_index_that_is_not_there_or_has_other_options_is_refused(place: Path, address: str) -> None:
    arguments = ("new.jsonl", "--output", "b.jsonl", "--index", address)
    told = dedup(place, *arguments, "--index-read-only", code=2)
    assert "there is none" in told and told.count("\n") == 1
    dedup(place, *arguments)
    told = dedup(place, "old.jsonl", "--output", "a.jsonl", "--index", address, "--near", "0.8", code=2)
    assert "asked for is threshold 0.8" in told and told.count("\n") == 1
