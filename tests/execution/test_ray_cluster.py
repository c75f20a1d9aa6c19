"""The Ray engine on a real cluster of two nodes, on this machine's loopback."""

import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

ray = pytest.importorskip("ray")

from execution.tasks import FailAtOddNumbers, Square, wait_for_file  # noqa: E402

from mindformers_megatron.errors import ConfigError, DataError  # noqa: E402
from mindformers_megatron.execution.engines import open_engine  # noqa: E402

pytestmark = pytest.mark.slow

TESTS = Path(__file__).parents[1]


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    from ray.cluster_utils import Cluster

    monkeypatch.setenv("PYTHONPATH", f"{TESTS.parent}:{TESTS}")
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    made.add_node(num_cpus=1)
    made.wait_for_nodes()
    yield made
    ray.shutdown()
    made.shutdown()


def test_results_come_in_order_and_errors_are_ours(cluster: Any) -> None:
    engine = open_engine("ray", address=cluster.address)
    assert engine.workers == 2
    notices: list[int] = []
    assert list(engine.map(Square, range(8), on_notice=notices.append)) == [n * n for n in range(8)]
    assert sorted(notices) == list(range(8))
    with pytest.raises(DataError, match=r"^1 is odd$"):
        list(engine.map(FailAtOddNumbers, range(8)))


def test_the_tasks_of_a_node_that_is_killed_are_done_by_another(cluster: Any, tmp_path: Path) -> None:
    engine = open_engine("ray", address=cluster.address)
    results: list[tuple[int, str]] = []
    failed: list[BaseException] = []

    def run() -> None:
        try:
            results.extend(engine.map(partial(wait_for_file, tmp_path), range(4)))
        except BaseException as error:
            failed.append(error)

    worker = threading.Thread(target=run)
    worker.start()
    lost = cluster.worker_nodes.copy().pop()
    # Both nodes have a task in their hands.
    while worker.is_alive() and len({path.name.split("-")[2] for path in tmp_path.glob("begun-*")}) < 2:
        pass
    cluster.remove_node(lost, allow_graceful=False)
    # Its worker outlives the node by a moment, and must not end its task in it.
    (pid,) = [path.name.split("-")[3] for path in tmp_path.glob("begun-*") if lost.node_id in path.name]
    while Path("/proc", pid).exists():
        pass
    (tmp_path / "go").touch()
    worker.join()
    assert not failed
    assert [number for number, _ in results] == [0, 1, 2, 3]
    assert lost.node_id not in {node for _, node in results}


def test_no_cluster_is_one_line() -> None:
    with pytest.raises(ConfigError, match=r"no Ray cluster at 127.0.0.1:1"):
        open_engine("ray", address="127.0.0.1:1")
