"""Every engine gives the same results, and does again what was lost."""

from functools import partial
from pathlib import Path

import pytest
from execution.tasks import DieTheFirstTimes, FailAtOddNumbers, Square

from mindformers_megatron.errors import ConfigError, DataError
from mindformers_megatron.execution.engines import LocalEngine, open_engine


@pytest.mark.parametrize("workers", [1, 2])
def test_results_come_in_order_and_notices_arrive(workers: int) -> None:
    notices: list[int] = []
    assert list(LocalEngine(workers).map(Square, range(9), on_notice=notices.append)) == [n * n for n in range(9)]
    assert sorted(notices) == list(range(9))


@pytest.mark.parametrize("workers", [1, 2])
def test_the_first_error_in_order_is_raised(workers: int) -> None:
    with pytest.raises(DataError, match=r"^1 is odd$"):
        list(LocalEngine(workers).map(FailAtOddNumbers, range(9)))


def test_a_task_whose_worker_is_killed_is_given_to_another_one(tmp_path: Path) -> None:
    engine = LocalEngine(2, retries=2)
    assert list(engine.map(partial(DieTheFirstTimes, tmp_path, 2), range(3))) == [0, 1, 2]


def test_a_task_that_kills_all_its_workers_ends_the_run(tmp_path: Path) -> None:
    engine = LocalEngine(2, retries=1)
    with pytest.raises(ChildProcessError, match=r"killed by SIGKILL on [012]"):
        list(engine.map(partial(DieTheFirstTimes, tmp_path, 2), range(3)))


def test_engines_by_name() -> None:
    assert open_engine("local", workers=3).workers == 3
    assert open_engine().workers >= 1
    with pytest.raises(ConfigError, match="workers is 0"):
        open_engine(workers=0)
    with pytest.raises(ConfigError, match="not one of local, ray"):
        open_engine("spark")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="give --engine ray"):
        open_engine("local", address="auto")
