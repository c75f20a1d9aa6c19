"""The YAMLs that are handed out: read, completed, checked, and their data built by MindFormers as a run builds them."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from mindformers_megatron.settings.run_config import check, complete
from mindformers_megatron.settings.yaml_file import read_config

ROOT = Path(__file__).parents[2]
CONFIGS = sorted(ROOT.glob("configs/*.yaml"))


@pytest.fixture(params=CONFIGS, ids=lambda path: path.stem)
def config(request, corpora):
    """A YAML with corpora that are there."""
    config = read_config(request.param)
    data = config["train_dataset"]["data_loader"]
    data["dataset_names"] = [Path(path).name for path in data["dataset_dir"]]
    data["dataset_dir"] = corpora
    # The corpora here are smaller than those meant by thousands, and would be repeated as often.
    data["max_epochs"] = None
    return config


def test_each_is_complete_and_passes_all_checks(config):
    complete(config)
    check(config)
    columns = config["train_dataset"]["input_columns"]
    assert columns[:4] == ["input_ids", "labels", "loss_mask", "position_ids"]
    assert config["train_dataset"]["construct_args_key"] == columns
    assert any(callback["type"] == "MegatronDataState" for callback in config["callbacks"])
    parallel = config["parallel"]
    if parallel["parallel_mode"] == 1:
        assert parallel["dataset_strategy"] == [[config["parallel_config"]["data_parallel"], 1]] * len(columns)


@pytest.mark.train
def test_mindformers_builds_the_data_of_each(config):
    from mindformers.dataset import build_dataset
    from mindformers.tools.register import MindFormerConfig

    import mindformers_megatron.loader  # noqa: F401

    complete(config)
    trainers = {"batch_size": 2, "micro_batch_num": 1, "do_eval": False, "profile": False, "seed": 0}
    dataset = {**config["train_dataset"], **trainers}
    task = MindFormerConfig(**{**config["train_dataset_task"], "dataset_config": dataset})
    batch = next(build_dataset(task).create_dict_iterator(num_epochs=1, output_numpy=True))
    length = config["model"]["model_config"]["seq_length"]
    shapes = {name: column.shape for name, column in batch.items()}
    assert list(shapes) == dataset["input_columns"]
    expected = {"attention_mask": (2, 1, length, length), "actual_seq_len": (2, 128)}
    assert shapes == {name: expected.get(name, (2, length)) for name in shapes}
    assert {column.dtype for column in batch.values()} == {np.dtype(np.int32)}
    if "actual_seq_len" in shapes:
        # MindFormers counts on from row to row.
        ends = batch["actual_seq_len"].reshape(-1)
        assert (np.diff(ends) >= 0).all() and ends[-1] == 2 * length


@pytest.mark.parametrize("script", ["train_node.sh", "train_nodes.sh"])
def test_scripts_say_how_they_are_used(script):
    done = subprocess.run([ROOT / "tools" / script], capture_output=True, text=True)
    assert done.returncode == 2
    assert f"tools/{script} CONFIG" in done.stderr and "LOG_DIR" in done.stderr


def test_ranks_are_counted_over_all_nodes(tmp_path):
    """What msrun is started with: two machines are more than a test has."""
    echo = tmp_path / "msrun"
    echo.write_text('#!/bin/sh\necho "$@"\n')
    echo.chmod(0o755)
    environment = {**os.environ, "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}", "CARDS": "4", "PORT": "9000"}
    command = [ROOT / "tools" / "train_nodes.sh", "run.yaml", "3", "2", "10.0.0.1", "runner_config.epochs=2"]
    words = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout.split()
    assert " ".join(words[: words.index("--log_dir")]) == (
        "--worker_num 12 --local_worker_num 4 --node_rank 2 --master_addr 10.0.0.1 --master_port 9000"
    )
    assert words[-3:] == ["--config", "run.yaml", "runner_config.epochs=2"]


@pytest.mark.train
@pytest.mark.slow
def test_the_script_for_one_node_trains(corpora, tmp_path):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    config = ROOT / "configs" / "pretrain_llama_cpu.yaml"
    data = f"train_dataset.data_loader.dataset_dir=[{', '.join(corpora)}]"
    settings = [data, "use_parallel=True", "runner_config.batch_size=2", "train_dataset.data_loader.num_samples=16"]
    command = [ROOT / "tools" / "train_node.sh", config, "2", *settings]
    done = subprocess.run(
        command, cwd=tmp_path, env={**os.environ, "PATH": path, "PORT": port}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(list((tmp_path / "output" / "checkpoint").glob("rank_*/*.ckpt"))) == 2
