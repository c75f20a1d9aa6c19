"""What is read of the YAML of MindFormers' PyNative trainer: its shards, its batches, its checkpoints."""

import pytest

from mindformers_megatron.errors import ConfigError
from mindformers_megatron.settings.pynative import PynativeRun, is_pynative

DATA = {"train_dataset": {"dataloader": {"type": "BlendedMegatronDataLoader", "dataset_dir": "wiki"}}}


def run(training=None, **parallelism):
    return PynativeRun.of({**DATA, "training": training or {"steps": 3}, "parallelism": parallelism})


def test_it_is_told_by_its_sections():
    assert is_pynative({**DATA, "training": {"steps": 3}})
    assert not is_pynative({**DATA, "training": {"steps": 3}, "runner_config": {}})
    assert not is_pynative(DATA)


def test_peers_of_tensor_context_and_pipeline_parallelism_read_the_same_rows():
    shards = [run(tensor_parallel=2, pipeline_parallel=2).shard(rank, 8) for rank in range(8)]
    assert shards == [0, 0, 1, 1, 0, 0, 1, 1]
    assert run(tensor_parallel=2, pipeline_parallel=2).data_parallel(8) == 2
    assert [run(context_parallel=2).shard(rank, 4) for rank in range(4)] == [0, 0, 1, 1]


def test_rows_and_micro_batches_follow_from_the_sizes():
    asked = run({"global_batch_size": 24, "local_batch_size": 2})
    assert (asked.rows_per_step(4), asked.micro_batches(4)) == (6, 3)
    assert run({"local_batch_size": 2}).rows_per_step(4) == 2


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (lambda: run(tensor_parallel=3).data_parallel(8), "do not divide 8 ranks"),
        (lambda: run({"global_batch_size": 9}).rows_per_step(2), "multiple of the 2 shards"),
        (lambda: run({"global_batch_size": 6, "local_batch_size": 4}).micro_batches(1), "divisor of the 6 rows"),
        (lambda: run({"global_batch_size": "6"}).rows_per_step(1), "expected a whole number"),
        (lambda: PynativeRun.of({"training": {}}), "train_dataset.dataloader.type is None"),
    ],
)
def test_what_does_not_fit_is_one_line(act, message):
    with pytest.raises(ConfigError, match=message) as caught:
        act()
    assert "\n" not in str(caught.value)


def test_the_trainer_is_not_given_options_that_it_does_not_know():
    assert run().for_trainer()["train_dataset"] == {"dataloader": {"type": "BlendedMegatronDataLoader"}}
