"""Runs that end early, and what the same command makes of it."""

import os
import random
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import orjson
import pytest
from runs import GOLDEN, TOKENIZER, assert_golden, run

from mindformers_megatron.errors import ConfigError, DataError
from mindformers_megatron.tokenization.preprocess import PreprocessSpec, preprocess
from mindformers_megatron.tokenization.tokenizer import TokenizerSpec

pytest.importorskip("gigatoken")

PART = 20_000


class InterruptionError(Exception):
    pass


def interrupted(path: Path, prefix: Path, **options: Any) -> int:
    """Ends a run when some parts are finished; tells how many."""

    def stop(total: int, advance: object) -> None:
        if len(list(Path(f"{prefix}.parts").glob("*.done"))) >= 3:
            raise InterruptionError

    options = {"tokenizer": TOKENIZER, "part_bytes": PART, "workers": 1} | options
    spec = PreprocessSpec(inputs=[path], output_prefix=str(prefix), **options)
    with pytest.raises(InterruptionError):
        preprocess(spec, stop)
    assert not list(prefix.parent.glob(f"{prefix.name}_text_document.bin"))
    return len(list(Path(f"{prefix}.parts").glob("*.done")))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    shutil.copy(GOLDEN / "input.jsonl", tmp_path / "input.jsonl")
    return tmp_path / "input.jsonl"


def test_the_same_command_goes_on_from_finished_parts(path: Path, tmp_path: Path) -> None:
    finished = interrupted(path, tmp_path / "out")
    report = run(path, tmp_path / "out", part_bytes=PART, workers=2)
    assert report.reused_parts == finished >= 3
    assert_golden(tmp_path / "out")
    assert report.counts == run(path, tmp_path / "other", part_bytes=PART).counts
    assert not (tmp_path / "out.parts").exists()


def test_with_processes_for_threads_too(path: Path, tmp_path: Path) -> None:
    finished = interrupted(path, tmp_path / "out")
    assert run(path, tmp_path / "out", part_bytes=PART, workers=2, in_processes=True).reused_parts == finished
    assert_golden(tmp_path / "out")


@pytest.mark.parametrize(
    "options",
    [
        {"append_eod": True},
        {"engine": "hf"},
        {"part_bytes": PART + 1},
        {"tokenizer": TokenizerSpec(path=GOLDEN / "tokenizer", special_tokens_in_text="split")},
        {"json_keys": ("text", "id")},
    ],
    ids=str,
)
def test_parts_made_with_other_options_are_made_again(options: dict[str, Any], path: Path, tmp_path: Path) -> None:
    interrupted(path, tmp_path / "out", engine="gigatoken")
    options = {"part_bytes": PART, "engine": "gigatoken"} | options
    assert run(path, tmp_path / "out", **options).reused_parts == 0
    run(path, tmp_path / "fresh", **options)
    for suffix in ("bin", "idx"):
        found, expected = (tmp_path / f"{name}_text_document.{suffix}" for name in ("out", "fresh"))
        assert found.read_bytes() == expected.read_bytes()


def test_parts_of_a_changed_input_or_tokenizer_are_made_again(path: Path, tmp_path: Path) -> None:
    folder = tmp_path / "tokenizer"
    shutil.copytree(GOLDEN / "tokenizer", folder)
    tokenizer = TokenizerSpec(path=folder)
    interrupted(path, tmp_path / "out", tokenizer=tokenizer)
    (folder / "tokenizer.json").write_bytes((folder / "tokenizer.json").read_bytes() + b"\n")
    assert run(path, tmp_path / "out", tokenizer=tokenizer, part_bytes=PART).reused_parts == 0
    assert_golden(tmp_path / "out")
    (tmp_path / "out_text_document.bin").unlink()

    interrupted(path, tmp_path / "out", tokenizer=tokenizer)
    # Other content of the same size, with the old time put back.
    status, content = path.stat(), path.read_bytes()
    path.write_bytes(content)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert run(path, tmp_path / "out", tokenizer=tokenizer, part_bytes=PART).reused_parts == 0
    assert_golden(tmp_path / "out")


@pytest.mark.parametrize("lost", ["docs", "tokens", "last token"])
def test_a_part_that_lost_something_is_made_again_with_those_behind_it(lost: str, path: Path, tmp_path: Path) -> None:
    finished = interrupted(path, tmp_path / "out")
    tokens = tmp_path / "out.parts" / "0.tokens.bin"
    marker = orjson.loads((tmp_path / "out.parts" / "00000000.done").read_bytes())
    kept = 1
    if lost == "docs":
        (tmp_path / "out.parts" / "00000001.docs.arrow").write_bytes(b"")
    elif lost == "tokens":
        with tokens.open("r+b") as file:
            file.seek(marker["tokens"][0] * 2)
            file.write(bytes(100))
    else:
        os.truncate(tokens, sum(map(tokens_of, (tmp_path / "out.parts").glob("*.done"))) * 2 - 2)
        kept = finished - 1
    assert run(path, tmp_path / "out", part_bytes=PART).reused_parts == kept
    assert_golden(tmp_path / "out")


def tokens_of(marker: Path) -> int:
    return int(orjson.loads(marker.read_bytes())["tokens"][0])


def test_tokens_behind_the_last_finished_part_are_forgotten(path: Path, tmp_path: Path) -> None:
    finished = interrupted(path, tmp_path / "out")
    with (tmp_path / "out.parts" / "0.tokens.bin").open("ab") as file:
        file.write(bytes(1 << 20))
    assert run(path, tmp_path / "out", part_bytes=PART).reused_parts == finished
    assert_golden(tmp_path / "out")


def test_a_bad_line_does_not_cost_the_parts_before_it(path: Path, tmp_path: Path) -> None:
    with path.open("ab") as file:
        file.write(b"{\n")
    with pytest.raises(DataError, match="it is not valid JSON"):
        run(path, tmp_path / "out", part_bytes=PART)
    report = run(path, tmp_path / "out", part_bytes=PART, rejects_allowed=1)
    assert report.reused_parts > 5
    assert_golden(tmp_path / "out")


def test_a_folder_with_something_else_in_it_is_not_worked_in(path: Path, tmp_path: Path) -> None:
    (tmp_path / "out.parts").mkdir()
    (tmp_path / "out.parts" / "thesis.txt").touch()
    with pytest.raises(ConfigError, match=r"has thesis\.txt in it"):
        run(path, tmp_path / "out")


@pytest.mark.slow
def test_killed_at_twenty_random_moments_the_pair_is_the_same(tmp_path: Path) -> None:
    path = tmp_path / "input.jsonl"
    path.write_bytes((GOLDEN / "input.jsonl").read_bytes() * 40)
    source = random.Random(0)
    command = [sys.executable, "-m", "mindformers_megatron.cli", "preprocess", "--input", str(path),
               "--tokenizer", str(GOLDEN / "tokenizer"), "--output-prefix", str(tmp_path / "out"),
               "--engine", "hf", "--workers", "2"]  # fmt: skip
    for _ in range(20):
        process = subprocess.Popen(command, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        try:
            process.wait(source.uniform(0.3, 3))
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.wait()
        if (tmp_path / "out_text_document.bin").exists():
            assert_golden(tmp_path / "out", times=40)
            (tmp_path / "out_text_document.bin").unlink()
    assert subprocess.run(command, check=False, capture_output=True).returncode == 0
    assert_golden(tmp_path / "out", times=40)
    names = {path.name for path in tmp_path.iterdir()}
    assert not [name for name in names if name.endswith((".tmp", ".parts"))]
