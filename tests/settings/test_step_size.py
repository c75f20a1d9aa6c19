"""Samples of a step and the ranks that share them, as MindFormers computes them from its YAML."""

from typing import Any

import pytest

from mindformers_megatron.settings.step_size import likely_ranks, reading_ranks, rows_per_step

SEMI_AUTO = {"use_parallel": True, "parallel": {"parallel_mode": "semi_auto_parallel"}}


def config(batch_size: int = 3, loader: dict[str, Any] | None = None, **settings: Any) -> dict[str, Any]:
    data = {"data_loader": {"type": "BlendedMegatronDataLoader", **(loader or {})}}
    return {"runner_config": {"batch_size": batch_size}, "train_dataset": data, **settings}


@pytest.mark.parametrize(
    ("settings", "ranks", "rows"),
    [
        ({}, 1, 3),
        ({"runner_config": {"batch_size": 3, "gradient_accumulation_steps": 4}}, 1, 12),
        ({**SEMI_AUTO, "parallel_config": {"data_parallel": 4}}, 4, 3),
        ({**SEMI_AUTO, "parallel_config": {"data_parallel": 4, "micro_batch_num": 5}}, 4, 3),
        ({**SEMI_AUTO, "parallel_config": {"data_parallel": 4, "micro_batch_num": 5, "pipeline_stage": 2}}, 4, 15),
        ({**SEMI_AUTO, "parallel_config": {"data_parallel": 4}, "micro_batch_interleave_num": 2}, 4, 6),
        (
            {
                "use_parallel": True,
                "parallel": {"parallel_mode": 1, "full_batch": True},
                "parallel_config": {"data_parallel": 4},
            },
            1,
            12,
        ),
        ({"loader": {"shard": [3, 8]}, "use_parallel": True}, 8, 3),
        ({"loader": {"shard_id": 0, "num_shards": 6}}, 6, 3),
        ({"loader": {"micro_batch_size": 7}, "runner_config": {}}, 1, 7),
    ],
)
def test_rows_and_ranks_are_those_of_mindformers(settings: dict[str, Any], ranks: int, rows: int) -> None:
    given = config(**settings)
    assert reading_ranks(given) == ranks
    assert rows_per_step(given, ranks) == rows


@pytest.mark.parametrize(
    "settings",
    [
        {"use_parallel": True, "parallel": {"parallel_mode": 0}, "parallel_config": {"data_parallel": 2}},
        {"loader": {"shard": "environment"}, "parallel_config": {"data_parallel": 2}},
    ],
)
def test_what_only_the_start_decides_is_not_taken_from_the_yaml_but_as_a_guess(settings: dict[str, Any]) -> None:
    given = config(**settings)
    assert reading_ranks(given) is None
    assert likely_ranks(given) == 2
    assert rows_per_step(given, 2) == 3


def test_a_pynative_run_shares_its_global_batch() -> None:
    given = {
        "training": {"global_batch_size": 24, "local_batch_size": 2},
        "train_dataset": {"dataloader": {"type": "BlendedMegatronDataLoader"}},
    }
    assert reading_ranks(given) is None
    assert [rows_per_step(given, ranks) for ranks in (1, 2, 4)] == [24, 12, 6]
