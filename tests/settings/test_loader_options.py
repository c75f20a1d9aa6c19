"""A bad option is one line that names it, its value and what was expected."""

import logging

import pytest

from mindformers_megatron.errors import ConfigError
from mindformers_megatron.sampling.shards import Shard
from mindformers_megatron.settings.loader_options import LoaderOptions


def options(**given):
    return LoaderOptions.from_options({"dataset_dir": "wiki", "seq_length": 32, **given})


@pytest.mark.parametrize(
    "given, message",
    [
        ({"seq_lenght": 3}, "unknown option 'seq_lenght'; did you mean seq_length"),
        ({"dataset_weight": [1]}, "did you mean dataset_weights"),
        ({"prefetch": 3}, "did you mean prefetch_size"),
        ({"micro_batch_size": 0}, "micro_batch_size is 0; expected a whole number ≥ 1"),
        ({"num_parallel_workers": "8"}, "num_parallel_workers is '8'"),
        ({"python_multiprocessing": 1}, "python_multiprocessing is 1; expected true or false"),
        ({"batch_size": 6, "micro_batch_size": 4}, "micro_batch_size is 4, a step takes batches of 6"),
        ({"on_change": "ask"}, "on_change is 'ask'; expected one of: refuse, continue"),
        ({"allow": ["vocabsize"]}, "allow: unknown option 'vocabsize'; did you mean vocab_size"),
        ({"shard": "rank"}, r"shard is 'rank'; expected \[shard_id, num_shards\], or environment"),
        ({"shard": [4, 4]}, "shard_id is 4, num_shards is 4"),
        ({"shard": "environment"}, "shard is environment, and RANK_ID is ''; expected a whole number"),
        ({"allow": 3}, "allow is 3; expected a list of names"),
        (
            {"create_attention_mask": True, "column_names": ["input_ids", "labels"]},
            "attention_mask is asked for and missing among them",
        ),
        ({"dataset_weights": [1, 2]}, "2 entries for 1 corpora"),
        ({"dataset_weights": [-1]}, "is -1; expected a finite number"),
        ({"seq_length": None}, "seq_length is missing"),
        ({"column_names": ["input_ids", "labelz"]}, "columns is 'labelz'"),
    ],
)
def test_bad_options(given, message, monkeypatch):
    for name in ("RANK_ID", "RANK_SIZE"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(ConfigError, match=message) as caught:
        options(**given)
    assert "\n" not in str(caught.value)


def test_the_share_may_be_told_in_several_ways(monkeypatch):
    assert options(shard_id=1, num_shards=4).share == Shard(1, 4)
    assert options(shard_id=1, num_shards=4, shard=[2, 8]).share == Shard(2, 8)
    monkeypatch.setenv("RANK_ID", "5")
    monkeypatch.setenv("RANK_SIZE", "6")
    assert options(shard="environment").share == Shard(5, 6)
    assert options().share == Shard(0, 1)


def test_what_mindformers_passes_along_is_taken():
    taken = options(
        num_shards=2, shard_id=1, python_multiprocessing=False, num_parallel_workers=1, batch_size=4,
        column_names=["input_ids", "labels"],
    )  # fmt: skip
    assert (taken.plan.columns, taken.rows_per_step, taken.shard_id) == (("input_ids", "labels"), 4, 1)


def test_mask_switches_of_mindformers_add_their_column():
    assert options(create_compressed_eod_mask=True).plan.columns[-1] == "actual_seq_len"
    assert options(create_attention_mask=True, create_compressed_eod_mask=False).plan.columns[-1] == "attention_mask"
    assert len(options().plan.columns) == 4


def test_mindformers_would_corrupt_a_last_column_that_is_not_actual_seq_len():
    with pytest.raises(ConfigError, match="the last must be actual_seq_len"):
        options(create_compressed_eod_mask=True, column_names=["input_ids", "actual_seq_len", "labels"])


def test_more_workers_than_cores_are_cut_down_with_one_line(caplog, monkeypatch):
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    with caplog.at_level(logging.WARNING, "mindformers_megatron"):
        assert options(num_parallel_workers=8).clamped().num_parallel_workers == 2
    # As a set: pytest also listens to MindFormers' logger, to which the line is handed on.
    assert {record.getMessage() for record in caplog.records} == {
        "num_parallel_workers 8 is more than the 2 cores here; 2 are used"
    }
