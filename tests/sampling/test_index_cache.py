import logging
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from mindformers_megatron.sampling.index_cache import Arrays, StoredArrays, stored_arrays

KEY = {"seed": 1, "lengths": [1, 2], "name": "中文"}


def build() -> Arrays:
    return {
        "samples": np.arange(2000, dtype=np.int32).reshape(-1, 2),
        "shuffle": np.arange(7, dtype=np.uint32),
        "empty": np.empty(0, dtype=np.int64),
    }


def refuse() -> Arrays:
    raise AssertionError("built although it is cached")


def check(stored: StoredArrays) -> None:
    for name, array in build().items():
        assert stored[name].dtype == array.dtype
        assert np.array_equal(stored[name], array)
        assert not stored[name].flags.writeable


def test_what_was_built_once_is_mapped_afterwards(tmp_path: Path) -> None:
    folder = tmp_path / "made" / "on demand"
    check(stored_arrays(folder, "thing", KEY, build))
    check(stored_arrays(folder, "thing", KEY, refuse))
    assert [path.suffix for path in folder.iterdir()] == [".idxcache"]


def test_without_a_folder_nothing_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    stored = stored_arrays(None, "thing", KEY, build)
    check(stored)
    assert stored.path is None
    assert not list(tmp_path.iterdir())


def test_the_kind_and_every_parameter_count(tmp_path: Path) -> None:
    stored_arrays(tmp_path, "thing", KEY, build)
    for kind, key in [("other", KEY), ("thing", {**KEY, "seed": 2}), ("thing", {**KEY, "more": 0})]:
        with pytest.raises(AssertionError, match="built although"):
            stored_arrays(tmp_path, kind, key, refuse)


def test_a_file_made_from_something_else_is_not_taken(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    wrong = stored_arrays(tmp_path, "thing", {"seed": 2}, lambda: {"samples": np.zeros(3, dtype=np.int32)}).path
    right = stored_arrays(tmp_path, "thing", KEY, build).path
    assert wrong is not None
    assert right is not None
    wrong.replace(right)
    with caplog.at_level(logging.WARNING):
        check(stored_arrays(tmp_path, "thing", KEY, build))
    assert "made from something else" in caplog.text
    check(stored_arrays(tmp_path, "thing", KEY, refuse))


@pytest.mark.parametrize("damage", ["empty", "head", "header", "half", "byte short", "byte more", "bit", "text"])
def test_a_damaged_file_is_built_again(tmp_path: Path, damage: str, caplog: pytest.LogCaptureFixture) -> None:
    path = stored_arrays(tmp_path, "thing", KEY, build).path
    assert path is not None
    whole = path.read_bytes()
    flipped = bytearray(whole)
    flipped[-100] ^= 4
    path.write_bytes(
        {
            "empty": b"",
            "head": whole[:20],
            "header": whole[:90],
            "half": whole[: len(whole) // 2],
            "byte short": whole[:-1],
            "byte more": whole + b"\0",
            "bit": bytes(flipped),
            "text": b"not an index cache\n",
        }[damage]
    )
    with caplog.at_level(logging.WARNING):
        check(stored_arrays(tmp_path, "thing", KEY, build))
    assert "damaged" in caplog.text
    assert path.read_bytes() == whole
    check(stored_arrays(tmp_path, "thing", KEY, refuse))


def test_a_folder_that_cannot_be_written_costs_a_warning_only(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("no folder")
    with caplog.at_level(logging.WARNING):
        stored = stored_arrays(blocked / "cache", "thing", KEY, build)
    check(stored)
    assert stored.path is None
    assert "going on without it" in caplog.text


def test_mapped_arrays_outlive_the_file(tmp_path: Path) -> None:
    stored = stored_arrays(tmp_path, "thing", KEY, build)
    assert stored.path is not None
    stored.path.unlink()
    check(stored)


WORKER = """
import hashlib, sys
import numpy as np
from mindformers_megatron.sampling.megatron_order import MegatronOrder
from megatron_reference import index_of
sys.stdin.readline()
order = MegatronOrder.build(index_of(range(1, 3000)), 0, 2999, num_samples=None, seq_length=32, seed=5,
                            cache_dir=sys.argv[1])
assert order.arrays.path is not None
print(hashlib.sha256(order.shuffle_index.tobytes() + order.sample_index.tobytes()).hexdigest())
"""


def test_processes_that_start_at_once_agree_and_leave_one_file(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parent)}
    command = [sys.executable, "-c", WORKER, str(tmp_path)]
    workers = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)
        for _ in range(4)
    ]
    for worker in workers:
        assert worker.stdin is not None
        worker.stdin.write("go\n")
        worker.stdin.flush()
    digests = [worker.communicate()[0].strip() for worker in workers]
    assert [worker.returncode for worker in workers] == [0, 0, 0, 0]
    assert len(digests[0]) == 64
    assert len(set(digests)) == 1
    assert len(list(tmp_path.iterdir())) == 1
