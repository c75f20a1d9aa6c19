"""A tokenizer in another process is the tokenizer it would be in this one."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest
from tokenized import TOKENIZER

from mindformers_megatron.errors import DataError
from mindformers_megatron.execution.processes import WorkerPool
from mindformers_megatron.tokenization.tokenizer import TokenizerSpec, open_tokenizer
from mindformers_megatron.tokenization.tokenizer_process import EngineElsewhere, TokenizerProcess, opened_for

TEXTS = ["a text", "", "émojis 😀 and 中文\n\tdef f(x):", "<|endoftext|>"]


def test_it_says_of_itself_and_encodes_what_it_would_here() -> None:
    here = open_tokenizer(TokenizerSpec(path=TOKENIZER))
    with TokenizerProcess(TokenizerSpec(path=TOKENIZER)) as process:
        there = process.tokenizer()
        for field in fields(here):
            if not field.name.startswith("_") and field.name != "engine":
                assert getattr(there, field.name) == getattr(here, field.name), field.name
        assert (there.engine.name, there.engine.version) == (here.engine.name, here.engine.version)
        assert there.largest_id == here.largest_id
        assert there.json() == here.json()
        for mine, theirs in zip(there.added_around(), here.added_around(), strict=True):
            assert np.array_equal(mine, theirs)
        ids, lengths = there.engine.encode(TEXTS)
        expected = here.engine.encode(TEXTS)
        assert np.array_equal(ids, expected[0]) and np.array_equal(lengths, expected[1])
        assert there.decode([ids.tolist()]) == here.decode([ids.tolist()])


def test_threads_get_the_ids_of_their_own_texts() -> None:
    here = open_tokenizer(TokenizerSpec(path=TOKENIZER)).engine
    with TokenizerProcess(TokenizerSpec(path=TOKENIZER)) as process, ThreadPoolExecutor(4) as pool:
        engine = process.tokenizer().engine
        found = list(pool.map(lambda number: engine.encode([f"text {number}"])[0].tolist(), range(100)))
    assert found == [here.encode([f"text {number}"])[0].tolist() for number in range(100)]


def test_forks_get_the_ids_of_their_own_texts_and_cannot_take_those_of_others() -> None:
    here = open_tokenizer(TokenizerSpec(path=TOKENIZER)).engine
    with TokenizerProcess(TokenizerSpec(path=TOKENIZER), workers=3) as process:
        engine = process.tokenizer().engine
        assert isinstance(engine, EngineElsewhere)

        def make_worker(number: int, notify: object) -> Callable[[int], list[int]]:
            own = engine.of_worker(number).engine

            def work(task: int) -> list[int]:
                with pytest.raises(RuntimeError, match="by the line of"):
                    engine.encode(["a"])
                return own.encode([f"text {task}"])[0].tolist()

            return work

        with WorkerPool(3, forked_with=make_worker) as pool:
            found = list(pool.map(None, range(100)))
        assert engine.encode(["a"])[0].tolist() == here.encode(["a"])[0].tolist()
    assert found == [here.encode([f"text {number}"])[0].tolist() for number in range(100)]


def test_what_is_wrong_with_a_tokenizer_is_said_as_it_would_be_here(tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(DataError) as here:
        open_tokenizer(TokenizerSpec(path=tmp_path))
    with pytest.raises(DataError) as there, opened_for("auto", TokenizerSpec(path=tmp_path)):
        pass
    assert str(there.value) == str(here.value)


def test_its_death_is_an_error_that_says_how_it_died() -> None:
    with TokenizerProcess(TokenizerSpec(path=TOKENIZER)) as process:
        engine = process.tokenizer().engine
        os.kill(process.pid, signal.SIGKILL)
        with pytest.raises(ChildProcessError, match="holds the tokenizer was killed by SIGKILL"):
            engine.encode(["a"])


def test_its_death_is_an_error_for_forks_too() -> None:
    with TokenizerProcess(TokenizerSpec(path=TOKENIZER), workers=1) as process:
        engine = process.tokenizer().engine
        assert isinstance(engine, EngineElsewhere)
        with WorkerPool(1, forked_with=lambda number, notify: engine.of_worker(number).engine.encode) as pool:
            assert list(pool.map(None, [["a"]]))
            os.kill(process.pid, signal.SIGKILL)
            with pytest.raises(ChildProcessError, match="holds the tokenizer died"):
                list(pool.map(None, [["a"]]))


HOLD = """
import sys
from pathlib import Path
from mindformers_megatron.tokenization.tokenizer import TokenizerSpec
from mindformers_megatron.tokenization.tokenizer_process import TokenizerProcess
process = TokenizerProcess(TokenizerSpec(path=Path(sys.argv[1])))
process.tokenizer()
print(process.pid, flush=True)
sys.stdin.read()
"""


def test_it_ends_with_the_process_that_asked_for_it() -> None:
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(TOKENIZER)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert holder.stdout is not None and holder.stdin is not None
    pid = int(holder.stdout.readline())
    holder.kill()
    holder.communicate()
    while is_running(pid):
        os.sched_yield()


def is_running(pid: int) -> bool:
    try:
        return "(zombie)" not in Path(f"/proc/{pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
