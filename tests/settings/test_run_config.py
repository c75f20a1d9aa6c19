"""What ``mfm train`` reads from a YAML, fills in, and refuses before MindFormers builds anything."""

from copy import deepcopy

import pytest
import yaml

from mindformers_megatron.errors import ConfigError, DataError
from mindformers_megatron.sampling.shards import Shard
from mindformers_megatron.settings.run_config import allow, check, complete, loader_options
from mindformers_megatron.settings.yaml_file import read_config

CPU = {"context": {"device_target": "CPU"}, "runner_config": {"sink_mode": False, "epochs": 1}, "run_mode": "train"}


@pytest.fixture
def run(blend):
    """The least that a training needs to say about its data."""
    return {**deepcopy(CPU), "train_dataset": {"data_loader": {"type": "BlendedMegatronDataLoader", **blend}}}


def completed(config):
    complete(config)
    return config


def read(tmp_path, content, *overrides):
    path = tmp_path / "run.yaml"
    path.write_text(yaml.safe_dump(content))
    return read_config(path, overrides)


def test_overrides_reach_into_mappings_and_lists_and_their_values_are_yaml(tmp_path):
    content = {"a": {"b": 1}, "callbacks": [{"type": "A"}, {"type": "B"}]}
    config = read(tmp_path, content, "a.b=[1, x]", "callbacks.1.steps=5", "new.deep.flag=False", "empty=")
    assert config == {
        "a": {"b": [1, "x"]},
        "callbacks": [{"type": "A"}, {"type": "B", "steps": 5}],
        "new": {"deep": {"flag": False}},
        "empty": None,
    }


@pytest.mark.parametrize("override", ["a", "=3", "callbacks.2.type=A", "callbacks.x=A", "a=[1", "callbacks.-1=A"])
def test_an_override_that_has_no_place_is_refused(tmp_path, override):
    with pytest.raises(ConfigError, match="override") as caught:
        read(tmp_path, {"a": 1, "callbacks": [{"type": "A"}]}, override)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("content", [b"a: [", b"- 1", b"", b"\xff\xfe\x00"])
def test_a_file_that_is_no_mapping_in_yaml_is_one_line(tmp_path, content):
    path = tmp_path / "run.yaml"
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"run\.yaml") as caught:
        read_config(path)
    assert "\n" not in str(caught.value)


def test_what_mindformers_needs_and_the_yaml_leaves_out_is_filled_in(run):
    config = completed(run)
    columns = ["input_ids", "labels", "loss_mask", "position_ids"]
    assert config["train_dataset"]["input_columns"] == config["train_dataset"]["construct_args_key"] == columns
    assert config["train_dataset"]["drop_remainder"] is True
    assert config["train_dataset_task"] == {"type": "CausalLanguageModelDataset"}
    assert config["callbacks"] == [{"type": "MegatronDataState"}]


def test_what_the_yaml_says_is_left_alone(run):
    run["train_dataset"] |= {"input_columns": ["input_ids", "labels"], "drop_remainder": False, "prefetch_size": 3}
    run["callbacks"] = [{"type": "MegatronDataState", "mine": True}]
    run["runner_config"]["batch_size"] = 4
    run["train_dataset"]["data_loader"] |= {"prefetch_size": 16, "micro_batch_size": 2}
    config = completed(run)
    assert config["train_dataset"]["construct_args_key"] == ["input_ids", "labels"]
    assert (config["train_dataset"]["drop_remainder"], config["train_dataset"]["prefetch_size"]) == (False, 3)
    assert config["callbacks"] == [{"type": "MegatronDataState", "mine": True}]
    assert config["runner_config"]["batch_size"] == 4


def test_options_of_the_data_loader_do_what_they_say_although_mindformers_reads_them_elsewhere(run, monkeypatch):
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    run["train_dataset"]["data_loader"] |= {"num_parallel_workers": 8, "prefetch_size": 16, "micro_batch_size": 2}
    config = completed(run)
    assert (config["train_dataset"]["num_parallel_workers"], config["train_dataset"]["prefetch_size"]) == (2, 16)
    assert config["runner_config"]["batch_size"] == 2


def test_a_share_that_the_yaml_names_is_kept_from_what_mindformers_passes(run):
    run["train_dataset"]["data_loader"] |= {"num_shards": 4, "shard_id": 1}
    assert completed(run)["train_dataset"]["data_loader"]["shard"] == [1, 4]
    assert loader_options("train_dataset", {**run["train_dataset"]}).share == Shard(1, 4)


def test_columns_are_cut_by_data_parallel_where_the_mode_asks_for_a_strategy(run):
    run |= {"parallel": {"parallel_mode": 1, "full_batch": False}, "parallel_config": {"data_parallel": 4}}
    run["train_dataset"]["data_loader"]["create_attention_mask"] = True
    assert completed(run)["parallel"]["dataset_strategy"] == [[4, 1]] * 4 + [[4, 1, 1, 1]]


def test_a_yaml_of_mindformers_own_loader_gets_what_mindformers_does_for_that_one_only(run, corpora):
    config = {"data_path": ["1", corpora[0].removesuffix(".bin")], "split": "1, 0, 0", "seq_length": 32, "eod": 0}
    config["create_compressed_eod_mask"] = True
    run["train_dataset"]["data_loader"] = {
        "type": "BlendedMegatronDataLoader", "datasets_type": "GPTDataset", "sizes": [80, 0, 0], "config": config,
    }  # fmt: skip
    run |= {"parallel": {"parallel_mode": 1, "full_batch": True}, "parallel_config": {"data_parallel": 2}}
    run["runner_config"]["epochs"] = 3
    complete(run)
    check(run)
    assert run["train_dataset"]["input_columns"][-1] == "actual_seq_len"
    assert run["train_dataset"]["data_loader"]["create_compressed_eod_mask"] is True
    assert run["parallel"]["dataset_strategy"] == [[2, 1]] * 5


def test_more_samples_than_megatrons_order_has_are_refused_at_the_start(run):
    run["train_dataset"]["data_loader"]["order"] = "megatron"
    run["runner_config"]["epochs"] = 2
    complete(run)
    with pytest.raises(ConfigError, match="the run takes 80 samples, and Megatron's order has 40: it ends"):
        check(run)


def test_a_run_without_our_datasets_is_left_as_it_is():
    config = {**deepcopy(CPU), "train_dataset": {"data_loader": {"type": "MindDataset"}}, "callbacks": None}
    assert completed(deepcopy(config)) == config


@pytest.mark.parametrize(
    "change, message",
    [
        ({"dataset_dir": ["/nowhere/wiki.bin"] * 1, "dataset_weights": None}, "train_dataset.data_loader: .*wiki"),
        ({"dataset_weights": [1, 2]}, "train_dataset.data_loader: .*2 entries for 3 corpora"),
        ({"seq_len": 3}, "did you mean seq_length"),
        ({"max_epochs": 0.001}, "max_epochs"),
    ],
)
def test_bad_data_is_refused_before_anything_is_built(run, change, message):
    run["train_dataset"]["data_loader"] |= change
    with pytest.raises((ConfigError, DataError), match=message) as caught:
        complete(run)
        check(run)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "change, message",
    [
        (
            {"construct_args_key": ["labels", "input_ids"], "input_columns": ["input_ids", "labels"]},
            r"construct_args_key is \['labels', 'input_ids'\], the columns come as \['input_ids', 'labels'\]",
        ),
        ({"input_columns": ["input_ids", "loss_mask"]}, "labels must be among them"),
        ({"input_columns": ["input_ids", "labelz"]}, "columns is 'labelz'"),
    ],
)
def test_columns_that_are_missing_or_in_another_order_are_refused(run, change, message):
    run["train_dataset"] |= change
    with pytest.raises(ConfigError, match=message) as caught:
        complete(run)
        check(run)
    assert "\n" not in str(caught.value)


def test_data_that_do_not_fit_the_model_are_refused_unless_allowed(run):
    run["model"] = {"model_config": {"vocab_size": 100, "seq_length": 32}}
    complete(run)
    with pytest.raises(ConfigError, match=r"train_dataset.data_loader: .*vocab_size is 100; .*allow: \[vocab_size\]"):
        check(run)
    allow(run, ["vocab_size"])
    check(run)
    allow(run, ["vocab"])
    with pytest.raises(ConfigError, match="unknown option 'vocab'; did you mean vocab_size"):
        check(run)


def test_settings_that_cannot_work_are_refused(run):
    with pytest.raises(ConfigError, match="run_mode is 'predict'"):
        check({**run, "run_mode": "predict"})
    with pytest.raises(ConfigError, match="sink_mode must be False on CPU"):
        check({**run, "runner_config": {}})
    check({**run, "runner_config": {}, "context": {"device_target": "Ascend"}})
    check(run)
