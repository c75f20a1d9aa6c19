import itertools
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mindformers_megatron.corpus.dedup.spill import Bound, Spill, footprint
from mindformers_megatron.errors import ConfigError, DataError

ROW = np.dtype([("key", np.uint64), ("value", np.int64)])


@given(
    st.lists(st.integers(0, 20_000), max_size=12),
    st.sampled_from([1, 1000, 1 << 40, 1 << 64]),
    st.integers(0, 200_000),
)
@settings(max_examples=25)
def test_every_row_comes_back_once_in_ranges_of_the_key(sizes: list[int], limit: int, expected: int) -> None:
    random = np.random.default_rng(0)
    parts = []
    for size in sizes:
        rows = np.empty(size, dtype=ROW)
        rows["key"] = random.integers(0, limit - 1, size, dtype=np.uint64, endpoint=True)
        rows["value"] = random.integers(0, 2**60, size)
        parts.append(rows)
    with Spill(ROW, "key", limit=limit, expected_rows=expected, bound=Bound(memory_bytes=1 << 16)) as spill:
        for rows in parts:
            spill.add(rows)
        back = list(spill)
    everything = np.concatenate([np.zeros(0, dtype=ROW), *parts])
    assert np.array_equal(np.sort(np.concatenate([np.zeros(0, dtype=ROW), *back])), np.sort(everything))
    assert all(low["key"].max() < high["key"].min() for low, high in itertools.pairwise(back))


def test_what_it_takes_is_told_beforehand() -> None:
    assert footprint(1000, 16, Bound()).disk_bytes == 0
    large = footprint(20 * 10**9, 16, Bound(memory_bytes=8 << 30))
    assert large.disk_bytes == 320 * 10**9
    assert large.memory_bytes == 8 << 30
    assert large.ranges == 512


def test_files_go_where_they_are_sent_and_do_not_stay(tmp_path: Path) -> None:
    rows = np.zeros(100_000, dtype=ROW)
    bound = Bound(memory_bytes=1 << 16, folder=tmp_path)
    with Spill(ROW, "key", limit=10, expected_rows=rows.size, bound=bound) as spill:
        spill.add(rows)
        assert sum(path.stat().st_size for path in tmp_path.rglob("*") if path.is_file()) == rows.nbytes
    assert not any(tmp_path.iterdir())


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    bound = Bound(memory_bytes=1 << 16, folder=tmp_path / "absent")
    with pytest.raises(ConfigError, match="absent"), Spill(ROW, "key", limit=1, expected_rows=0, bound=bound) as spill:
        spill.add(np.zeros(100_000, dtype=ROW))


def test_a_full_disk_is_one_line(tmp_path: Path) -> None:
    bound = Bound(memory_bytes=1 << 16, folder=tmp_path)
    with Spill(ROW, "key", limit=10, expected_rows=1, bound=bound) as spill:
        spill.add(np.zeros(10_000, dtype=ROW))
        (spilled,) = tmp_path.glob("*/*")
        spilled.unlink()
        spilled.symlink_to("/dev/full")
        with pytest.raises(DataError, match="No space left"):
            spill.add(np.zeros(100_000, dtype=ROW))


def test_too_little_memory_to_work_with_is_refused() -> None:
    with pytest.raises(ConfigError, match="65536"):
        Bound(memory_bytes=1000)
