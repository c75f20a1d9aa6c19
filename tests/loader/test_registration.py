"""MindFormers finds the datasets and the callback by name, in all the ways it has."""

import os
import subprocess
import sys

import numpy as np
import pytest

from mindformers_megatron.errors import DataError

pytestmark = pytest.mark.train


def test_registering_twice_is_fine():
    from mindformers.tools.register import MindFormerModuleType, MindFormerRegister

    import mindformers_megatron

    mindformers_megatron.register()
    mindformers_megatron.register()
    for kind, name in (
        (MindFormerModuleType.DATASET_LOADER, "BlendedMegatronDataLoader"),
        (MindFormerModuleType.DATASET_LOADER, "MegatronIndexedDataset"),
        (MindFormerModuleType.CALLBACK, "MegatronDataState"),
        (MindFormerModuleType.CALLBACK, "MegatronStepLog"),
        (MindFormerModuleType.WRAPPER, "CpuTrainOneStepCell"),
    ):
        assert MindFormerRegister.is_exist(kind, name)


def test_mindformers_dataset_task_builds_the_loader_from_yaml(blend):
    from mindformers.dataset import CausalLanguageModelDataset
    from mindformers.tools.register import MindFormerConfig

    import mindformers_megatron.loader  # noqa: F401

    columns = ["input_ids", "labels", "loss_mask", "position_ids"]
    config = MindFormerConfig(
        data_loader={"type": "BlendedMegatronDataLoader", **blend}, input_columns=columns, batch_size=5,
        drop_remainder=True, num_parallel_workers=1, output_columns=columns,
    )  # fmt: skip
    dataset = CausalLanguageModelDataset(dataset_config=config)
    batch = next(dataset.create_dict_iterator(num_epochs=1, output_numpy=True))
    assert dataset.get_dataset_size() == 8
    assert {name: (column.shape, column.dtype) for name, column in batch.items()} == dict.fromkeys(
        columns, ((5, 32), np.dtype(np.int32))
    )


def test_mindformers_own_launcher_finds_the_loader_by_auto_register(corpora, shim, tmp_path):
    script = f"""
from mindformers.dataset import build_dataset_loader
loader = build_dataset_loader({{
    "type": "BlendedMegatronDataLoader", "auto_register": "megatron_loader.BlendedMegatronDataLoader",
    "dataset_dir": {corpora}, "seq_length": 32}})
print("built", type(loader).__module__, loader.get_dataset_size())
"""
    environment = {**os.environ, "REGISTER_PATH": str(shim)}
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, env=environment, capture_output=True, text=True, check=True
    )
    assert "built mindformers_megatron.loader.loader" in done.stdout


def test_a_missing_corpus_is_one_line_through_mindformers_too(tmp_path):
    from mindformers.dataset import build_dataset_loader

    config = {"type": "BlendedMegatronDataLoader", "dataset_dir": [str(tmp_path / "wiki.bin")], "seq_length": 32}
    with pytest.raises(DataError, match=r"BlendedMegatronDataLoader: .*wiki.* no such pair") as caught:
        build_dataset_loader(config)
    assert "\n" not in str(caught.value)
