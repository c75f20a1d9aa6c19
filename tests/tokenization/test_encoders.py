"""Where parts are encoded: in forks where that is safe and of use, in threads otherwise."""

import gzip
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from runs import GOLDEN, assert_golden

pytest.importorskip("gigatoken")

# In a process of its own: that of the tests may have threads, which other tests left.
PROGRAM = """
import json, multiprocessing, sys, threading
from pathlib import Path
from mindformers_megatron.tokenization.preprocess import PreprocessSpec, preprocess
from mindformers_megatron.tokenization.tokenizer import TokenizerSpec

seen = [0]

def run():
    options = json.loads(sys.argv[1])
    tokenizer = TokenizerSpec(path=Path(options.pop("tokenizer")))
    spec = PreprocessSpec(tokenizer=tokenizer, **options)
    preprocess(spec, lambda total, advance: seen.append(len(multiprocessing.active_children())))
    assert not multiprocessing.active_children()
    print(max(seen))

if sys.argv[2] == "beside a thread":
    done = threading.Event()
    threading.Thread(target=done.wait).start()
    run()
    done.set()
elif sys.argv[2] == "in a daemon":
    daemon = multiprocessing.get_context("fork").Process(target=run, daemon=True)
    daemon.start()
    daemon.join()
else:
    run()
"""


def children_of_a_run(prefix: Path, *, where: str = "alone", **options: Any) -> int:
    """How many processes encoded, at most."""
    options = {
        "inputs": [str(GOLDEN / "input.jsonl")],
        "tokenizer": str(GOLDEN / "tokenizer"),
        "output_prefix": str(prefix),
        "part_bytes": 9_000,
        "workers": 2,
    } | options
    command = [sys.executable, "-c", PROGRAM, json.dumps(options), where]
    done = subprocess.run(command, capture_output=True, text=True)
    assert not done.returncode and not done.stderr, done.stderr
    assert_golden(prefix)
    return int(done.stdout)


@pytest.mark.parametrize("engine", ["auto", "gigatoken", "tiktoken"])
def test_a_fast_engine_encodes_in_forks(engine: str, tmp_path: Path) -> None:
    assert children_of_a_run(tmp_path / "out", engine=engine) == 2


def test_there_are_no_more_of_them_than_parts(tmp_path: Path) -> None:
    assert children_of_a_run(tmp_path / "out", workers=64, part_bytes=1 << 20) == 1


def test_the_library_that_defines_the_ids_encodes_in_threads(tmp_path: Path) -> None:
    assert children_of_a_run(tmp_path / "out", engine="hf") == 0


def test_what_has_to_be_read_from_its_beginning_is_encoded_where_it_is_read(tmp_path: Path) -> None:
    packed = tmp_path / "input.jsonl.gz"
    packed.write_bytes(gzip.compress((GOLDEN / "input.jsonl").read_bytes()))
    assert children_of_a_run(tmp_path / "out", inputs=[str(packed)]) == 0


@pytest.mark.parametrize("where", ["beside a thread", "in a daemon"])
def test_a_process_is_not_forked_that_has_threads_or_may_have_no_children(where: str, tmp_path: Path) -> None:
    assert children_of_a_run(tmp_path / "out", where=where) == 0
