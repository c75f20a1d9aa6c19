"""The options of MindFormers' own loader are understood, or refused in one line."""

import logging
from typing import Any

import pytest

from mindformers_megatron.errors import ConfigError
from mindformers_megatron.settings.loader_options import LoaderOptions

CONFIG: dict[str, Any] = {"data_path": ["0.3", "wiki", "0.7", "code"], "split": "1, 0, 0", "seq_length": 64}


def options(config: Any = CONFIG, **outside: Any) -> LoaderOptions:
    return LoaderOptions.from_options({"datasets_type": "GPTDataset", "sizes": [80, 8, 4], "config": config, **outside})


def test_what_its_options_mean() -> None:
    config = {
        **CONFIG, "seed": 5, "eod": 0, "pad": 1, "reset_position_ids": True, "eod_mask_loss": True,
        "path_to_cache": "cache", "create_compressed_eod_mask": True, "eod_pad_length": 16,
        "num_dataset_builder_threads": 4, "mmap_bin_files": True,
    }  # fmt: skip
    taken = options(config, batch_size=4, num_shards=2, shard_id=1)
    plan = taken.plan
    assert (plan.dataset_dir, plan.dataset_weights) == (("wiki", "code"), (0.3, 0.7))
    assert (plan.order, plan.num_samples, plan.blend_sizes, plan.split) == ("megatron", 80, "mindformers", "1, 0, 0")
    assert (plan.seed, plan.eod_id, plan.pad_id, plan.cache_dir, plan.eod_pad_length) == (5, 0, 1, "cache", 16)
    assert (plan.loss_mask, plan.boundaries, plan.reset_position_ids) == ("eod", "eod", True)
    assert plan.columns == ("input_ids", "labels", "loss_mask", "position_ids", "actual_seq_len")
    assert (taken.rows_per_step, taken.num_shards, taken.repeat_epochs) == (4, 2, True)


def test_of_the_two_masks_it_makes_the_dense_one_unless_told_otherwise() -> None:
    assert options().plan.columns[-1] == "attention_mask"
    assert options({**CONFIG, "create_attention_mask": False}).plan.columns[-1] == "position_ids"
    both = {**CONFIG, "create_attention_mask": True, "create_compressed_eod_mask": True, "eod": 0}
    assert options(both).plan.columns[4:] == ("actual_seq_len",)


@pytest.mark.parametrize(
    "path, prefixes, weights",
    [
        (["wiki", "code", "chat"], ("wiki", "code", "chat"), None),
        (["wiki", "code"], ("wiki", "code"), None),
        (["1", "wiki"], ("wiki",), (1.0,)),
        ("wiki", ("wiki",), None),
        ([30, " wiki ", 70, "code"], ("wiki", "code"), (30.0, 70.0)),
    ],
)
def test_weights_and_prefixes_stand_in_turn_or_there_are_no_weights(path: Any, prefixes: Any, weights: Any) -> None:
    plan = options({**CONFIG, "data_path": path}).plan
    assert (plan.dataset_dir, plan.dataset_weights) == (prefixes, weights)


def test_parts_with_files_of_their_own_are_chosen_by_the_phase() -> None:
    config = {"train_data_path": ["1", "wiki"], "valid_data_path": ["code", "chat", "law"], "seq_length": 64}
    train, valid = options(config).plan, options(config, phase="valid").plan
    assert (train.dataset_dir, train.dataset_weights, train.split, train.num_samples) == (("wiki",), None, None, 80)
    assert (valid.dataset_dir, valid.split_part, valid.num_samples) == (("code", "chat", "law"), "valid", 8)
    assert options(phase="test").plan.split_part == "test"


@pytest.mark.parametrize(
    "config, outside, message",
    [
        ("config.json", {}, "config is 'config.json'; expected the mapping .*create_compressed_eod_mask itself"),
        ({**CONFIG, "seq_len": 4}, {}, "config: unknown option 'seq_len'; did you mean seq_length"),
        (CONFIG, {"sizes": [80, 8]}, "sizes is .*; expected three numbers"),
        (CONFIG, {"sizes": [0, 8, 8]}, "expected at least 1 sample for train"),
        (CONFIG, {"datasets_type": "BERT"}, "datasets_type is 'BERT'; expected GPTDataset"),
        (CONFIG, {"phase": "dev"}, "phase is 'dev'; expected one of: train, valid, test"),
        (CONFIG, {"shuffle": True}, "would mix Megatron's order once more"),
        (CONFIG, {"size": [1, 1, 1]}, "unknown option 'size'"),
        ({**CONFIG, "data_path": None}, {}, r"config\.data_path is missing"),
        ({**CONFIG, "split": None}, {}, r"config\.split is missing"),
        ({**CONFIG, "train_data_path": ["wiki"]}, {}, "config has train_data_path and data_path; choose one"),
        ({"valid_data_path": ["wiki"], "seq_length": 4}, {}, r"config\.train_data_path is missing, and phase is train"),
        ({**CONFIG, "data_path": ["0.3", "wiki", "code", "0.7"]}, {}, "weights and prefixes not in turn"),
        ({**CONFIG, "data_path": ["0.3", "wiki", "-1", "code"]}, {}, "-1"),
        ({**CONFIG, "seq_length": None}, {}, "seq_length is missing"),
    ],
)
def test_what_cannot_work_is_one_line(config: Any, outside: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        options(config, **outside)
    assert "\n" not in str(caught.value)


def test_a_pad_token_that_is_the_end_of_document_is_pointed_out(caplog: Any) -> None:
    with caplog.at_level(logging.WARNING):
        options({**CONFIG, "eod": 2, "pad": 2})
    assert "config.pad and config.eod are both 2" in caplog.text


def test_epochs_are_repeated_only_where_the_order_ends() -> None:
    with pytest.raises(ConfigError, match="repeat_epochs is true, and order: stream has no end"):
        LoaderOptions.from_options({"dataset_dir": "wiki", "seq_length": 4, "repeat_epochs": True})
