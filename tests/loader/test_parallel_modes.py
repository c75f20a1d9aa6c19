"""Every rank of every parallel mode is given its share of the global batch, or a stand-in where nothing reads it."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytestmark = pytest.mark.train

COLUMNS = ["input_ids", "labels", "loss_mask", "position_ids", "actual_seq_len"]
GLOBAL_BATCH = 8
LENGTH = 16


def semi_auto(dp: int, stages: int = 1, **more: Any) -> dict[str, Any]:
    strategy = [[dp, 1]] * len(COLUMNS)
    return {
        "parallel_mode": "semi_auto_parallel", "full_batch": False, "dataset_strategy": strategy,
        "pipeline_stages": stages, **more,
    }  # fmt: skip


MODES: dict[str, dict[str, Any]] = {
    "data parallel": {"ranks": 4, "parallel": {"parallel_mode": "data_parallel"}, "batch_size": 2},
    "full batch": {
        "ranks": 4, "parallel": {"parallel_mode": "semi_auto_parallel", "full_batch": True}, "batch_size": 8,
    },
    "dp2 tp2": {"ranks": 4, "parallel": semi_auto(2), "batch_size": 4},
    "dp2 tp2 cp2 pp2": {"ranks": 16, "parallel": semi_auto(2, stages=2), "batch_size": 4, "micro_batches": 2},
    "accumulation": {"ranks": 2, "parallel": semi_auto(2), "batch_size": 4, "micro_batches": 4},
    "broadcast to peers and stages": {"ranks": 12, "parallel": semi_auto(2, 3), "batch_size": 4, "broadcast": 3},
    "broadcast to peers": {"ranks": 12, "parallel": semi_auto(2, 3), "batch_size": 4, "broadcast": 2},
    "broadcast to stages": {"ranks": 12, "parallel": semi_auto(2, 3), "batch_size": 4, "broadcast": 1},
    "shard from the environment": {
        "ranks": 4, "parallel": {"parallel_mode": "semi_auto_parallel", "full_batch": True}, "batch_size": 2,
        "options": {"shard": "environment"},
    },
    "shard from the options": {
        "ranks": 2, "parallel": {"parallel_mode": "stand_alone"}, "batch_size": 2, "options": {"shard": [3, 4]},
    },
}  # fmt: skip


@pytest.fixture(scope="module")
def options(corpora: list[str]) -> dict[str, Any]:
    return {
        "dataset_dir": corpora, "dataset_weights": [0.5, 0.3, 0.2], "seq_length": LENGTH, "num_samples": 64,
        "create_compressed_eod_mask": True, "eod_pad_length": 8, "reset_position_ids": True,
    }  # fmt: skip


@pytest.fixture(scope="module")
def given(options: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[dict[str, Any]]]:
    script = Path(__file__).parent / "plugins" / "parallel_modes.py"
    asked = json.dumps({"options": options, "columns": COLUMNS, "modes": MODES})
    done = subprocess.run(
        [sys.executable, str(script)], input=asked, cwd=tmp_path_factory.mktemp("modes"), capture_output=True, text=True
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith("ANSWER ")]
    assert done.returncode == 0 and lines, done.stdout + done.stderr
    answer: dict[str, list[dict[str, Any]]] = json.loads(lines[0].removeprefix("ANSWER "))
    return answer


@pytest.fixture(scope="module")
def whole(options: dict[str, Any]) -> dict[str, np.ndarray]:
    """The first two global batches, as the plan itself gives them."""
    from mindformers_megatron.settings.loader_options import LoaderOptions, SamplePlan

    plan = SamplePlan(LoaderOptions.from_options(options).plan)
    return plan.read(np.arange(2 * GLOBAL_BATCH))


def expected_rows(whole: dict[str, np.ndarray], shard: list[int], step: int) -> dict[str, np.ndarray]:
    rank, ranks = shard
    return {name: column[step * GLOBAL_BATCH :][:GLOBAL_BATCH][rank::ranks] for name, column in whole.items()}


def with_offsets(ends: np.ndarray, micro_batches: int) -> np.ndarray:
    """The ends of the segments in the rows of each micro-batch laid end to end, as attention over them wants."""
    rows = len(ends) // micro_batches
    return np.concatenate(
        [ends[micro * rows + row][None] + row * LENGTH for micro in range(micro_batches) for row in range(rows)]
    )


@pytest.mark.parametrize("mode", MODES)
def test_ranks_are_given_their_rows_and_peers_the_same(
    given: dict[str, Any], whole: dict[str, np.ndarray], mode: str
) -> None:
    ranks = given[mode]
    reading = [rank for rank in ranks if rank["source"] == "SampleSource"]
    for rank in reading:
        for step, columns in enumerate(rank["steps"]):
            expected = expected_rows(whole, rank["shard"], step)
            expected["actual_seq_len"] = with_offsets(expected["actual_seq_len"], MODES[mode].get("micro_batches", 1))
            for name, column in expected.items():
                assert np.array_equal(columns[name], column), (rank["shard"], step, name)
    assert {(rank["plan"], rank["size"], rank["global_batch_size"]) for rank in ranks} == {
        (ranks[0]["plan"], 64 // GLOBAL_BATCH, GLOBAL_BATCH)
    }


def test_all_shards_are_there(given: dict[str, Any]) -> None:
    shards = {mode: [tuple(rank["shard"]) for rank in ranks] for mode, ranks in given.items()}
    assert shards["data parallel"] == shards["shard from the environment"] == [(0, 4), (1, 4), (2, 4), (3, 4)]
    assert set(shards["full batch"]) == {(0, 1)}
    assert shards["dp2 tp2"] == [(0, 2), (0, 2), (1, 2), (1, 2)]
    assert shards["dp2 tp2 cp2 pp2"] == ([(0, 2)] * 4 + [(1, 2)] * 4) * 2
    assert shards["shard from the options"] == [(3, 4), (3, 4)]


def test_ranks_whose_data_nobody_looks_at_deliver_stand_ins_of_the_same_shape(given: dict[str, Any]) -> None:
    stands_in = {
        mode: [rank["source"] == "StandInSource" for rank in ranks]
        for mode, ranks in given.items()
        if mode.startswith("broadcast")
    }
    # Three stages of two shards with two peers each.
    assert stands_in["broadcast to peers"] == [False, True] * 6
    assert stands_in["broadcast to stages"] == [False] * 4 + [True] * 4 + [False] * 4
    assert stands_in["broadcast to peers and stages"] == [False, True] * 2 + [True] * 4 + [False, True] * 2
    for mode in stands_in:
        shapes = [[np.shape(rank["steps"][0][name]) for name in COLUMNS] for rank in given[mode]]
        assert all(shape == shapes[0] for shape in shapes)
    assert not any(rank["source"] == "StandInSource" for rank in given["dp2 tp2"])


def test_a_stand_in_has_the_shapes_of_every_column(corpora: list[str]) -> None:
    from mindformers_megatron.loader.stand_in import StandInSource
    from mindformers_megatron.sampling.plan import SamplePlan

    plan = SamplePlan.build(corpora, seq_length=8, columns=["attention_mask", *COLUMNS])
    row = StandInSource(plan)[10**12]
    real = plan.read(np.array([0]))
    for name, column in zip(plan.spec.columns, row, strict=True):
        assert (column.shape, column.dtype) == (real[name][0].shape, np.int32), name
