"""Jobs are done once, whoever asks and however often runs end early."""

from functools import partial
from pathlib import Path

import pytest
from execution.tasks import record

from mindformers_megatron.corpus.jobs import Job, begin, finished, run_jobs
from mindformers_megatron.execution.engines import LocalEngine


def jobs(folder: Path, numbers: range, version: str = "1") -> list[Job[int]]:
    return [
        Job(f"job-{number}", f"{number} {version}", number, size=number, outputs=(folder / f"{number}.out",))
        for number in numbers
    ]


def done(folder: Path) -> list[int]:
    return sorted(map(int, (folder / "log").read_text().split()))


@pytest.mark.parametrize("workers", [1, 2])
def test_results_come_in_order_and_nothing_is_done_twice(tmp_path: Path, workers: int) -> None:
    told: list[int] = []
    engine, work = LocalEngine(workers), partial(record, tmp_path)
    for _ in range(2):
        told.clear()
        results = list(run_jobs(engine, work, jobs(tmp_path, range(6)), tmp_path, on_done=told.append))
        assert results == [{"number": number} for number in range(6)]
        assert sorted(told) == list(range(6))
    assert done(tmp_path) == list(range(6))


def test_only_what_is_left_of_an_early_end_is_done(tmp_path: Path) -> None:
    work = partial(record, tmp_path)
    given_up = run_jobs(LocalEngine(1), work, jobs(tmp_path, range(5)), tmp_path)
    assert [next(given_up) for _ in range(2)] == [{"number": 0}, {"number": 1}]
    given_up.close()
    assert list(run_jobs(LocalEngine(1), work, jobs(tmp_path, range(5)), tmp_path)) == [
        {"number": number} for number in range(5)
    ]
    assert done(tmp_path) == list(range(5))


def test_another_key_is_another_job(tmp_path: Path) -> None:
    work = partial(record, tmp_path)
    list(run_jobs(LocalEngine(1), work, jobs(tmp_path, range(2)), tmp_path))
    list(run_jobs(LocalEngine(1), work, jobs(tmp_path, range(2), "2"), tmp_path))
    assert done(tmp_path) == [0, 0, 1, 1]
    # What the first ones left is overwritten, so they are not done any more.
    assert finished(tmp_path, "job-0", "0 1") is None


def test_a_job_whose_output_is_gone_is_done_again(tmp_path: Path) -> None:
    work = partial(record, tmp_path)
    list(run_jobs(LocalEngine(1), work, jobs(tmp_path, range(3)), tmp_path))
    (tmp_path / "1.out").unlink()
    list(run_jobs(LocalEngine(1), work, jobs(tmp_path, range(3)), tmp_path))
    assert done(tmp_path) == [0, 1, 1, 2]


def test_a_job_that_has_begun_to_overwrite_is_not_done(tmp_path: Path) -> None:
    list(run_jobs(LocalEngine(1), partial(record, tmp_path), jobs(tmp_path, range(1)), tmp_path))
    assert finished(tmp_path, "job-0", "0 1") == {"number": 0}
    begin(tmp_path, "job-0")
    assert finished(tmp_path, "job-0", "0 1") is None


@pytest.mark.parametrize("damage", [b"", b"{", b"[]", b'{"key": "0 1"}', b'{"key": "0 1", "result": 3}'])
def test_a_damaged_marker_is_no_marker(tmp_path: Path, damage: bytes) -> None:
    (tmp_path / "job-0.done.json").write_bytes(damage)
    assert finished(tmp_path, "job-0", "0 1") is None
