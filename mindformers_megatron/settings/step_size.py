"""How many samples a step takes and how many ranks share them, as MindFormers computes both from the YAML."""

from mindformers_megatron.settings.pynative import PynativeRun, is_pynative
from mindformers_megatron.settings.run_config import SEMI_AUTO
from mindformers_megatron.settings.yaml_file import Config


def reading_ranks(config: Config) -> int | None:
    """Ranks that read different rows; None: as many as are started, which the YAML does not say.

    Tensor-parallel peers and the stages of a pipeline read the same rows and count as one.
    """
    if is_pynative(config):
        return None
    loader = (config.get("train_dataset") or {}).get("data_loader") or {}
    shard = loader.get("shard")
    if shard == "environment":
        return None
    if isinstance(shard, list | tuple) and len(shard) == 2 and isinstance(shard[1], int):
        return shard[1]
    if isinstance(loader.get("num_shards"), int):
        return int(loader["num_shards"])
    if not config.get("use_parallel"):
        return 1
    if not _is_semi_auto(config):
        return None
    return 1 if _has_full_batch(config) else _data_parallel(config)


def rows_per_step(config: Config, ranks: int) -> int:
    """Rows that a step takes on each of ``ranks`` ranks: the batch size and all that multiplies it."""
    if is_pynative(config):
        return PynativeRun.of(config).rows_per_step(ranks)
    runner, parallel = config.get("runner_config") or {}, config.get("parallel_config") or {}
    loader = (config.get("train_dataset") or {}).get("data_loader") or {}
    rows = int(runner.get("batch_size") or loader.get("micro_batch_size") or 1)
    accumulated = int(runner.get("gradient_accumulation_steps") or 1)
    if not config.get("use_parallel") or not _is_semi_auto(config):
        return rows * accumulated
    # With a pipeline, micro-batches take the place of accumulated gradients.
    rows *= int(parallel.get("micro_batch_num") or 1) if int(parallel.get("pipeline_stage") or 1) > 1 else accumulated
    rows *= int(config.get("micro_batch_interleave_num") or 1)
    return rows * _data_parallel(config) if _has_full_batch(config) else rows


def likely_ranks(config: Config) -> int:
    """Ranks of a data-parallel run, as ``parallel_config`` has them; MindFormers counts those that are started."""
    return _data_parallel(config)


def _is_semi_auto(config: Config) -> bool:
    return (config.get("parallel") or {}).get("parallel_mode") in SEMI_AUTO


def _has_full_batch(config: Config) -> bool:
    return bool((config.get("parallel") or {}).get("full_batch"))


def _data_parallel(config: Config) -> int:
    return int((config.get("parallel_config") or {}).get("data_parallel") or 1)
