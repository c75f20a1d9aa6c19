"""Killed at random moments, a run goes on to the same bytes; so does one whose cluster loses a node."""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
import yaml
from corpus.prepare.carrying_out import digests, prepare
from corpus.prepare.raw_texts import recipe, write_raw

pytestmark = pytest.mark.slow

KILLS = 20
TESTS = Path(__file__).parents[2]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    write_raw(tmp_path / "raw")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "recipe.yaml").write_text(yaml.safe_dump(recipe(Path("raw"), part_mb=0.01)))
    return tmp_path


def start(workers: int) -> "subprocess.Popen[bytes]":
    command = [sys.executable, "-m", "mindformers_megatron.cli", "prepare", "recipe.yaml", "--workers", str(workers)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True)


def test_killed_at_random_moments_it_ends_with_the_same_bytes(place: Path) -> None:
    begun = time.monotonic()
    assert start(1).wait() == 0
    whole = time.monotonic() - begun
    straight = digests(place / "out")
    rng = random.Random(20)
    killed = 0
    for number in range(KILLS):
        shutil.rmtree(place / "out")
        run = start(1 + number % 2)
        try:
            run.wait(rng.uniform(0.1, 1) * whole)
        except subprocess.TimeoutExpired:
            os.killpg(run.pid, signal.SIGKILL)
            run.wait()
            killed += 1
        again = start(1 + number % 2)
        output, _ = again.communicate()
        assert again.returncode == 0, output.decode()
        assert digests(place / "out") == straight
        left_over = [path for path in (place / "out").rglob("*.tmp") if "work" not in path.parts]
        assert not left_over
    assert killed > KILLS // 2


def test_a_recipe_on_ray_makes_the_same_bytes_though_a_node_is_killed(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("ray")
    import ray
    from ray.cluster_utils import Cluster

    from mindformers_megatron.execution.engines import open_engine

    values: dict[str, Any] = yaml.safe_load((place / "recipe.yaml").read_text())
    # Nodes run in folders of their own.
    values = json.loads(json.dumps(values).replace('"raw/', f'"{place}/raw/'))
    values["output"] = str(place / "out")
    prepare(values)
    straight = digests(place / "out")
    shutil.rmtree(place / "out")
    monkeypatch.setenv("PYTHONPATH", f"{TESTS.parent}:{TESTS}")
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    lost = cluster.add_node(num_cpus=1)
    cluster.wait_for_nodes()
    try:
        engine = open_engine("ray", address=cluster.address)
        failed: list[BaseException] = []

        def run() -> None:
            try:
                prepare(values, engine)
            except BaseException as error:
                failed.append(error)

        worker = threading.Thread(target=run)
        worker.start()
        # In the midst of the first stage.
        while worker.is_alive() and len(list((place / "out").glob("work/read/kept/*.done.json"))) < 3:
            pass
        cluster.remove_node(lost, allow_graceful=False)
        worker.join()
        assert not failed, failed
    finally:
        ray.shutdown()
        cluster.shutdown()
    assert digests(place / "out") == straight
