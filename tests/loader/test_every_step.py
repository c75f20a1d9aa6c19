"""Restored at every step, under every number of ranks, workers and rows: the later samples are the same, in order."""

from collections.abc import Iterator
from itertools import islice
from typing import Any

import numpy as np
import pytest
from pairs import MakeCorpus

pytestmark = pytest.mark.train

GLOBAL_BATCH = 24
STEPS = 8
RANKS = (1, 2, 3, 4, 6, 8)
Batches = list[dict[str, np.ndarray]]


@pytest.fixture
def options(make_corpus: MakeCorpus) -> dict[str, Any]:
    rng = np.random.default_rng(4)
    return {
        "dataset_dir": [make_corpus(name, rng.integers(1, 40, 30).tolist()) for name in ("wiki", "code", "chat")],
        "dataset_weights": [0.5, 0.3, 0.2],
        "seq_length": 24,
        "seed": 3,
        "column_names": ["input_ids", "labels", "loss_mask", "position_ids", "actual_seq_len"],
        "loss_mask": "boundary",
        "reset_position_ids": True,
        "eod_pad_length": 8,
        # A MindSpore epoch of five steps, so that runs of eight go from one into the next.
        "num_samples": 5 * GLOBAL_BATCH,
    }


def loaders_of(options: dict[str, Any], ranks: int, **more: Any) -> list[Any]:
    from mindformers_megatron.loader import BlendedMegatronDataLoader

    rows = GLOBAL_BATCH // ranks
    return [
        BlendedMegatronDataLoader(**options, micro_batch_size=rows, num_shards=ranks, shard_id=rank, **more)
        for rank in range(ranks)
    ]


def global_batches(loaders: list[Any], steps: int, through: str) -> Batches:
    """The next global batches that the ranks are given together, rows in the order of the samples."""
    ranks = [list(islice(rows_of(loader, through), steps)) for loader in loaders]
    return [
        {name: np.stack([rank[step][name] for rank in ranks], axis=1).reshape(GLOBAL_BATCH, -1) for name in ranks[0][0]}
        for step in range(steps)
    ]


def rows_of(loader: Any, through: str) -> Iterator[dict[str, np.ndarray]]:
    if through == "iterator":
        return iter(loader.create_iterator())
    rows = loader.options.rows_per_step
    pipeline = loader.batch(rows).create_dict_iterator(num_epochs=-1, output_numpy=True)

    def endless() -> Iterator[dict[str, np.ndarray]]:
        while True:
            yield from pipeline

    return endless()


def expected(options: dict[str, Any], steps: int) -> Batches:
    """What the plan itself says, without loader, ranks or workers."""
    from mindformers_megatron import SamplePlan

    plain = {name: value for name, value in options.items() if name != "column_names"}
    plan = SamplePlan.build(**plain, columns=options["column_names"])
    return [plan.read(np.arange(step * GLOBAL_BATCH, (step + 1) * GLOBAL_BATCH)) for step in range(steps)]


def assert_same(left: Batches, right: Batches) -> None:
    assert len(left) == len(right)
    for one, other in zip(left, right, strict=True):
        for name, column in other.items():
            assert np.array_equal(one[name], column), name


@pytest.mark.parametrize("ranks", RANKS)
@pytest.mark.parametrize("workers", [1, 4])
def test_every_restore_gives_the_later_samples_in_order(options: dict[str, Any], ranks: int, workers: int) -> None:
    whole = expected(options, STEPS)
    for step in range(STEPS):
        state = loaders_of(options, 1)[0].plan.state(step * GLOBAL_BATCH)
        loaders = loaders_of(options, ranks, num_parallel_workers=workers)
        for loader in loaders:
            loader.load_state_dict(_plain(state))
        assert_same(global_batches(loaders, STEPS - step, "iterator"), whole[step:])


@pytest.mark.parametrize(("before", "between", "after"), [(1, 2, 1), (2, 1, 2), (8, 3, 4), (6, 8, 1), (4, 6, 3)])
def test_a_second_restore_under_yet_another_number_of_ranks_goes_on(
    options: dict[str, Any], before: int, between: int, after: int
) -> None:
    whole = expected(options, STEPS)
    for first in range(1, 4):
        for second in range(first + 1, STEPS):
            run = loaders_of(options, before)
            seen = global_batches(run, first, "iterator")
            for ranks, until in ((between, second), (after, STEPS)):
                states = [loader.state_dict() for loader in run]
                assert all(state == states[0] for state in states), "the state is the same on every rank"
                run = loaders_of(options, ranks)
                for loader in run:
                    loader.load_state_dict(states[0])
                seen += global_batches(run, until - len(seen), "iterator")
            assert_same(seen, whole)


@pytest.mark.parametrize(
    ("workers", "processes"), [(1, False), (2, False), (2, True)], ids=["one thread", "two threads", "two processes"]
)
def test_mindspores_own_pipeline_gives_the_same_after_a_restore(
    options: dict[str, Any], workers: int, processes: bool
) -> None:
    whole = expected(options, STEPS)
    for step in (0, 3, 5, 7):
        loaders = loaders_of(options, 2, num_parallel_workers=workers, python_multiprocessing=processes)
        for loader in loaders:
            loader.load_state_dict(_plain(loader.plan.state(step * GLOBAL_BATCH)))
        assert_same(global_batches(loaders, STEPS - step, "pipeline"), whole[step:])


def test_one_plan_reads_the_same_through_mindspore_and_through_grain(options: dict[str, Any]) -> None:
    grain = pytest.importorskip("grain")
    loader = loaders_of(options, 1)[0]
    through_mindspore = global_batches([loader], 5, "pipeline")
    through_grain = grain.MapDataset.source(loader.plan).batch(GLOBAL_BATCH)
    assert len(through_grain) == 5
    assert_same([{**through_grain[step]} for step in range(5)], through_mindspore)
    sharded = [grain.MapDataset.source(loader.plan)[rank::3].batch(GLOBAL_BATCH // 3) for rank in range(3)]
    for step in range(5):
        together = np.stack([part[step]["input_ids"] for part in sharded], axis=1).reshape(GLOBAL_BATCH, -1)
        assert np.array_equal(together, through_mindspore[step]["input_ids"])


def _plain(state: Any) -> dict[str, Any]:
    import json

    plain: dict[str, Any] = json.loads(state.to_json())
    return plain
