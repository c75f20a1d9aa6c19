"""Runs MindFormers' own Trainer on a YAML, with everything of ours in place."""

import logging
import os
from collections.abc import Sequence
from pathlib import Path

import yaml
from mindformers import Trainer, build_context
from mindformers.tools.register import MindFormerConfig
from mindformers.tools.utils import get_real_group_size

from mindformers_megatron.format.atomic import write_atomically
from mindformers_megatron.loader import cpu
from mindformers_megatron.loader.restart import settle_resume
from mindformers_megatron.loader.spread import spread
from mindformers_megatron.settings import run_config
from mindformers_megatron.settings.pynative import is_pynative
from mindformers_megatron.settings.yaml_file import Config, read_config

logger = logging.getLogger(__name__)


def train(path: str | Path, overrides: Sequence[str] = (), allow: Sequence[str] = ()) -> None:
    """Trains as the YAML says; the same call on every rank, under ``msrun`` too.

    A run that has already come to its end is left as it is, with a line that says so.

    A YAML of the PyNative trainer (with ``training.steps``, as MindFormers 2.x has them) is run by that trainer.

    What is in force (the YAML, the overrides, and what they left out) is written to ``<output_dir>/config.yaml``.

    Args:
        path: MindFormers' YAML.
        overrides: ``key=value``, as ``runner_config.epochs=2`` or ``callbacks.1.save_checkpoint_steps=10``.
        allow: Mismatches of data and model that are no errors, beside those in the YAML; see ``model_match.CHECKS``.

    Raises:
        ConfigError: One line, for a bad option or a state that belongs to another plan.
        DataError: One line, for a file that is missing or damaged.
    """
    config = read_config(Path(path), overrides)
    if is_pynative(config):
        from mindformers_megatron.loader import pynative

        pynative.train(config)
        return
    settle_resume(config)
    run_config.allow(config, allow)
    run_config.complete(config)
    run_config.check(config)
    if run_config.runs_on_cpu(config):
        cpu.replace_barrier()
        cpu.apply_dense_masks()
    mindformers_config = MindFormerConfig(str(_write_in_force(config)))
    build_context(mindformers_config)
    if run_config.holds_whole_model(config) and config.get("load_checkpoint"):
        mindformers_config.load_checkpoint = str(
            spread(Path(config["load_checkpoint"]), get_real_group_size(), _output_dir(config) / "loaded_checkpoint")
        )
    trainer = Trainer(mindformers_config)
    try:
        if mindformers_config.run_mode == "finetune":
            trainer.finetune()
        else:
            trainer.train()
    except ValueError as error:
        runner = trainer.config.runner_config
        if "initial_epoch" not in str(error) or (runner.initial_epoch or 0) < runner.epochs:
            raise
        logger.info(
            "nothing left to do: the checkpoint is that of step %d, and %d epochs end there or before; raise "
            "runner_config.epochs to train on",
            *(runner.initial_step, runner.epochs),
        )


def _write_in_force(config: Config) -> Path:
    rank = os.environ.get("RANK_ID", "0")
    path = _output_dir(config) / ("config.yaml" if rank == "0" else f"config_rank_{rank}.yaml")
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, yaml.safe_dump(config, sort_keys=False, allow_unicode=True).encode())
    return path


def _output_dir(config: Config) -> Path:
    return Path(config.get("output_dir") or "./output")
