"""Builds what MindFormers builds first, from settings that are wrong; prints which errors come out of it."""

import contextlib
import io
import json
import sys
from copy import deepcopy
from pathlib import Path

import yaml
from mindformers import MindFormerConfig, build_context
from mindformers.dataset import CausalLanguageModelDataset

import mindformers_megatron.loader  # noqa: F401
from mindformers_megatron.cli.main import run


def dataset_of(config):
    section = deepcopy(config["train_dataset"])
    columns = section.setdefault("input_columns", ["input_ids", "labels", "loss_mask", "position_ids"])
    section |= {"batch_size": 4, "drop_remainder": True, "num_parallel_workers": 1, "output_columns": columns}
    return CausalLanguageModelDataset(dataset_config=MindFormerConfig(**section))


def main():
    asked = json.load(sys.stdin)
    answer = {}
    context = {"mode": 0, "device_target": "CPU"}
    running = build_context(
        MindFormerConfig(use_parallel=False, run_mode="train", context=context, parallel={}, model={"model_config": {}})
    )
    for name, config in asked.items():
        running.config["model"] = MindFormerConfig(**config["model"])
        try:
            dataset_of(config)
            built = ["nothing", ""]
        except Exception as error:
            built = [type(error).__name__, str(error)]
        Path("run.yaml").write_text(yaml.safe_dump(config))
        printed = io.StringIO()
        with contextlib.redirect_stderr(printed):
            code = run(["train", "--config", "run.yaml"])
        answer[name] = {"built": built, "code": code, "printed": printed.getvalue()}
    print("ANSWER", json.dumps(answer))


main()
