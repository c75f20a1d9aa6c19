"""MindSpore's pipeline over the loader: order, epochs, workers, and skipping never add up to another sample."""

import numpy as np
import pytest

from mindformers_megatron.errors import ConfigError

pytestmark = pytest.mark.train

STEPS = 10


def build(blend, **options):
    from mindformers_megatron.loader import BlendedMegatronDataLoader

    return BlendedMegatronDataLoader(**{**blend, "batch_size": 4, **options})


def batched(loader):
    return loader.batch(loader.options.rows_per_step, drop_remainder=True)


def delivered(dataset, init_step=0, epochs=3):
    """input_ids of all rows from ``init_step`` to the end of the last epoch, as MindFormers reads them."""
    dataset.set_init_step(init_step)
    iterator = dataset.create_dict_iterator(num_epochs=epochs, output_numpy=True)
    steps = dataset.get_dataset_size()
    return np.concatenate([batch["input_ids"] for _ in range(init_step // steps, epochs) for batch in iterator])


def test_a_second_epoch_goes_on_in_the_stream(blend):
    loader = build(blend)
    assert loader.steps_per_epoch == STEPS
    np.testing.assert_array_equal(delivered(batched(loader)), loader.plan.read(np.arange(3 * 40))["input_ids"])


@pytest.mark.parametrize("workers, processes", [(1, False), (2, False), (1, True), (2, True)])
def test_workers_change_nothing(blend, workers, processes, monkeypatch):
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    loader = build(blend, num_parallel_workers=workers, python_multiprocessing=processes)
    np.testing.assert_array_equal(delivered(batched(loader)), loader.plan.read(np.arange(3 * 40))["input_ids"])


def test_ranks_share_each_global_batch(blend):
    shards = [build(blend, batch_size=2, num_shards=2, shard_id=rank) for rank in range(2)]
    rows = np.stack([delivered(batched(shard)) for shard in shards], axis=1).reshape(-1, 32)
    np.testing.assert_array_equal(rows, shards[0].plan.read(np.arange(3 * 40))["input_ids"])


def test_ranks_that_open_only_their_share_of_the_files_share_each_global_batch_too(blend):
    options = {"batch_size": 2, "num_shards": 2, "shard_files": True}
    shards = [build(blend, **options, shard_id=rank) for rank in range(2)]
    # Of the weights 0.5, 0.3 and 0.2 the first makes up one half, the others the other.
    assert [list(shard.plan.corpora) for shard in shards] == [["wiki"], ["code", "chat"]]
    rows = np.stack([delivered(batched(shard)) for shard in shards], axis=1).reshape(-1, 32)
    alone = build(blend, shard_files=2)
    np.testing.assert_array_equal(rows, delivered(batched(alone)))
    state = shards[0].state_dict()
    assert state == shards[1].state_dict() == alone.state_dict()
    with pytest.raises(ConfigError, match="shard_files = 2, this run has 4"):
        build(blend, **{**options, "num_shards": 4}, shard_id=0).load_state_dict(state)


@pytest.mark.parametrize("init_step", [1, STEPS - 1, STEPS, STEPS + 1, 3 * STEPS - 1])
def test_steps_that_mindspore_skips_are_skipped_once(blend, init_step):
    loader = build(blend)
    expected = loader.plan.read(np.arange(init_step * 4, 3 * 40))["input_ids"]
    dataset = batched(loader)
    np.testing.assert_array_equal(delivered(dataset, init_step), expected)
    # A later iterator is not affected by what an earlier one has skipped.
    np.testing.assert_array_equal(delivered(dataset)[:4], loader.plan.read(np.arange(4))["input_ids"])


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("init_step", [0, 3, STEPS, 2 * STEPS + 3])
def test_a_loaded_state_and_skipped_steps_never_add_up(blend, init_step, workers):
    loader = build(blend, num_parallel_workers=workers, python_multiprocessing=workers > 1)
    loader.consumed_samples = 1001
    rows = delivered(batched(loader), init_step)
    assert len(rows) == (3 * STEPS - init_step) * 4
    np.testing.assert_array_equal(rows, loader.plan.read(1001 + np.arange(len(rows)))["input_ids"])


def test_rows_without_batches_are_skipped_one_by_one(blend):
    loader = build(blend)
    loader.set_init_step(7)
    row = next(loader.create_dict_iterator(num_epochs=1, output_numpy=True))["input_ids"]
    np.testing.assert_array_equal(row, loader.plan.read(np.array([7]))["input_ids"][0])


def test_the_default_epoch_is_the_corpora_once_through(blend):
    loader = build(blend, num_samples=None, batch_size=1)
    tokens = sum(corpus.num_tokens for corpus in loader.plan.corpora.values())
    assert loader.get_dataset_size() == tokens // 32


def test_an_epoch_of_less_than_one_step_is_refused_where_it_was_asked_for(blend):
    with pytest.raises(ConfigError, match=r"num_samples is 40, fewer than one global batch of 42 \(21 rows on 2 ranks"):
        build(blend, batch_size=21, num_shards=2, shard_id=0)


def test_a_batch_size_that_the_loader_does_not_know_of_is_refused(blend):
    with pytest.raises(
        ConfigError, match="batched by 8, the loader counts 4 rows to a step; build it with batch_size=8"
    ):
        build(blend).batch(8).create_dict_iterator()


def test_sink_mode_reads_from_the_loaded_state_too(blend):
    """There MindSpore starts to read before any callback is called."""
    loader = build(blend)
    loader.consumed_samples = 500
    dataset = loader.batch(4)
    dataset.set_init_step(6)
    transfer = dataset.device_que()
    tree, copy = transfer.create_ir_tree()
    sampler = copy.children[0].children[0].sampler
    assert tree is not None
    assert sampler.get_indices()[6] == 500
