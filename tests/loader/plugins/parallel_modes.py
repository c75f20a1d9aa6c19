"""Builds the dataset of every rank of a parallel run in one process; prints what each one's first step is given.

Reads, from standard input, JSON: the options of the loader, and modes by name (ranks, parallel context, broadcast
level, batch size of a rank, micro-batches). Prints, by mode and rank, the columns of the first two steps.
"""

import json
import os
import sys

import mindspore
from mindformers import MindFormerConfig, build_context
from mindformers.core.context.build_context import set_context
from mindformers.dataset import CausalLanguageModelDataset

from mindformers_megatron.loader.callbacks import find_loader


def first_steps(options, columns, batch_size, micro_batches):
    dataset = CausalLanguageModelDataset(
        dataset_config=MindFormerConfig(
            data_loader={"type": "BlendedMegatronDataLoader", **options}, input_columns=columns, batch_size=batch_size,
            drop_remainder=True, num_parallel_workers=1, micro_batch_num=micro_batches,
        )
    )  # fmt: skip
    loader = find_loader(dataset)
    steps = []
    for _, batch in zip(range(2), dataset.create_dict_iterator(num_epochs=1, output_numpy=True), strict=False):
        steps.append({name: column.tolist() for name, column in batch.items()})
    shard = loader.shard
    return {
        "shard": [shard.rank, shard.ranks],
        "source": type(loader.source).__name__,
        "plan": loader.plan.fingerprint,
        "size": dataset.get_dataset_size(),
        "global_batch_size": loader.global_batch_size,
        "steps": steps,
    }


def main():
    asked = json.load(sys.stdin)
    context = {"mode": 0, "device_target": "CPU"}
    build_context(MindFormerConfig(use_parallel=False, run_mode="train", context=context, parallel={}))
    answer = {}
    for name, mode in asked["modes"].items():
        mindspore.reset_auto_parallel_context()
        parallel = mode["parallel"]
        if isinstance(parallel.get("dataset_strategy"), list):
            parallel["dataset_strategy"] = tuple(map(tuple, parallel["dataset_strategy"]))
        mindspore.set_auto_parallel_context(**parallel)
        set_context(dataset_broadcast_opt_level=mode.get("broadcast", 0))
        answer[name] = []
        for rank in range(mode["ranks"]):
            os.environ |= {"RANK_ID": str(rank), "RANK_SIZE": str(mode["ranks"])}
            rows = mode["batch_size"], mode.get("micro_batches", 1)
            answer[name].append(first_steps({**asked["options"], **mode.get("options", {})}, asked["columns"], *rows))
    print("ANSWER", json.dumps(answer))


main()
