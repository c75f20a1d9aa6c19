"""The YAML of MindFormers' PyNative trainer, which has sections of its own: training, parallelism, checkpoint."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mindformers_megatron.errors import ConfigError
from mindformers_megatron.settings.yaml_file import Config

_LOADERS = ("BlendedMegatronDataLoader", "MegatronIndexedDataset")


def is_pynative(config: Config) -> bool:
    """Whether a YAML is one for the PyNative trainer: it counts in ``training.steps``, and has no ``runner_config``."""
    return isinstance(config.get("training"), dict) and "runner_config" not in config


@dataclass(frozen=True, slots=True)
class PynativeRun:
    """What our data need to know of such a YAML.

    Attributes:
        config: The YAML.
        options: Options of the loader.
    """

    config: Config
    options: Mapping[str, Any]

    @classmethod
    def of(cls, config: Config) -> "PynativeRun":
        """Reads it.

        Raises:
            ConfigError: One line, where ``train_dataset.dataloader`` names no loader of this package.
        """
        options = dict((config.get("train_dataset") or {}).get("dataloader") or {})
        kind = options.pop("type", None)
        if kind not in _LOADERS:
            raise ConfigError(f"train_dataset.dataloader.type is {kind!r}; expected one of: {', '.join(_LOADERS)}")
        options.setdefault("num_parallel_workers", (config.get("train_dataset") or {}).get("num_parallel_workers"))
        return cls(config, options)

    @property
    def prefetch_size(self) -> int:
        """Batches that MindSpore reads ahead."""
        return int((self.config.get("train_dataset") or {}).get("prefetch_size") or 1)

    @property
    def load_path(self) -> str:
        """The checkpoint to resume from; empty: none."""
        return str((self.config.get("checkpoint") or {}).get("load_path") or "")

    @property
    def save_path(self) -> str:
        """Where checkpoints go; empty: nowhere."""
        checkpoint = self.config.get("checkpoint") or {}
        return str(checkpoint.get("save_path") or "") if checkpoint.get("enable_save", True) else ""

    def ranks(self) -> int:
        """Ranks of the run, as msrun says."""
        return int(os.environ.get("MS_WORKER_NUM") or os.environ.get("RANK_SIZE") or 1)

    def data_parallel(self, ranks: int) -> int:
        """Groups of ranks that read different rows: what tensor, context and pipeline parallelism leave."""
        tensor, context, pipeline = self._degrees()
        if ranks % (tensor * context * pipeline):
            raise ConfigError(
                f"parallelism: tensor {tensor} x context {context} x pipeline {pipeline} do not divide {ranks} ranks"
            )
        return ranks // (tensor * context * pipeline)

    def shard(self, rank: int, ranks: int) -> int:
        """The group that a rank is in."""
        tensor, context, pipeline = self._degrees()
        return rank % (ranks // pipeline) // tensor // context

    def rows_per_step(self, groups: int) -> int:
        """Rows that a step takes on each rank."""
        size = self._training("global_batch_size", groups * self._training("local_batch_size", 1))
        if size % groups:
            raise ConfigError(f"training.global_batch_size is {size}; expected a multiple of the {groups} shards")
        return size // groups

    def micro_batches(self, groups: int) -> int:
        """Parts that each rank's rows are computed in."""
        rows, local = self.rows_per_step(groups), self._training("local_batch_size", 1)
        if rows % local:
            raise ConfigError(f"training.local_batch_size is {local}; expected a divisor of the {rows} rows of a rank")
        return rows // local

    def for_trainer(self) -> Config:
        """The YAML with no more of the loader than its type: the trainer knows its own loaders' options only."""
        dataset = self.config["train_dataset"]
        return {**self.config, "train_dataset": {**dataset, "dataloader": {"type": dataset["dataloader"]["type"]}}}

    def _degrees(self) -> tuple[int, int, int]:
        parallelism = self.config.get("parallelism") or {}
        tensor, context, pipeline = (
            int(parallelism.get(f"{name}_parallel") or 1) for name in ("tensor", "context", "pipeline")
        )
        return tensor, context, pipeline

    def _training(self, name: str, default: int) -> int:
        value = self.config["training"].get(name)
        value = default if value is None else value
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise ConfigError(f"training.{name} is {value!r}; expected a whole number ≥ 1")
        return value
