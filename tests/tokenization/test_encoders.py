"""Where parts are encoded: in forks where that is safe and of use, in threads otherwise."""

import gzip
import multiprocessing
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from runs import GOLDEN, TOKENIZER, assert_golden

from mindformers_megatron.tokenization.preprocess import PreprocessSpec, preprocess

pytest.importorskip("gigatoken")


def children_of_a_run(prefix: Path, **options: Any) -> int:
    """How many processes encoded, at most."""
    seen = [0]

    def count(total: int, advance: object) -> None:
        seen.append(len(multiprocessing.active_children()))

    options = {"inputs": [GOLDEN / "input.jsonl"], "part_bytes": 9_000, "workers": 2} | options
    preprocess(PreprocessSpec(output_prefix=str(prefix), tokenizer=TOKENIZER, **options), count)
    assert_golden(prefix)
    assert not multiprocessing.active_children()
    return max(seen)


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
    assert children_of_a_run(tmp_path / "out", inputs=[packed]) == 0


def test_a_process_with_other_threads_is_not_forked(tmp_path: Path) -> None:
    done = threading.Event()
    other = threading.Thread(target=done.wait)
    other.start()
    try:
        assert children_of_a_run(tmp_path / "out") == 0
    finally:
        done.set()
        other.join()


def call(function: Callable[[Path], int], prefix: Path, results: Any) -> None:
    results.send(function(prefix))


def test_a_process_that_may_have_no_children_is_not_forked(tmp_path: Path) -> None:
    ours, theirs = multiprocessing.Pipe()
    context = multiprocessing.get_context("fork")
    daemon = context.Process(target=call, args=(children_of_a_run, tmp_path / "out", theirs), daemon=True)
    daemon.start()
    theirs.close()
    assert ours.recv() == 0
    daemon.join()
