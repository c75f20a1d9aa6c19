"""Batches read as such are those that MindSpore would have made from rows, in every respect."""

import numpy as np
import pytest

from mindformers_megatron.sampling.plan import SamplePlan

pytestmark = pytest.mark.train

COLUMNS = ["input_ids", "labels", "loss_mask", "position_ids", "attention_mask", "actual_seq_len"]
MASKS = {"loss_mask": "boundary", "reset_position_ids": True, "reset_attention_mask": True}


def build(blend, **options):
    from mindformers_megatron.loader import BlendedMegatronDataLoader

    return BlendedMegatronDataLoader(**{**blend, "batch_size": 4, "column_names": COLUMNS, **MASKS, **options})


def whole(loader, **options):
    from mindformers_megatron.loader.whole_batches import WholeBatches

    batched = loader.batch(loader.options.rows_per_step, **options)
    assert isinstance(batched, WholeBatches)
    return batched


def from_rows(loader, **options):
    """What MindSpore makes of the same rows."""
    from mindspore.dataset.engine.datasets import BatchDataset

    return BatchDataset(loader, loader.options.rows_per_step, **options)


def delivered(dataset, epochs=2):
    iterator = dataset.create_dict_iterator(num_epochs=epochs, output_numpy=True)
    return [batch for _ in range(epochs) for batch in iterator]


def check_equal(found, expected):
    assert len(found) == len(expected) > 0
    for one, other in zip(found, expected, strict=True):
        assert list(one) == list(other)
        for name, column in one.items():
            assert column.dtype == other[name].dtype
            np.testing.assert_array_equal(column, other[name])


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"num_shards": 2, "shard_id": 1},
        {"num_shards": 3, "shard_id": 2, "batch_size": 1},
        {"order": "document"},
        {"boundaries": "eod", "loss_mask": "eod", "eod_id": 0},
        {"reset_position_ids": False, "loss_mask": "none", "reset_attention_mask": False},
    ],
)
@pytest.mark.parametrize("start", [0, 7, 1001])
def test_they_are_what_mindspore_makes_of_the_rows(blend, options, start):
    loaders = [build(blend, **options) for _ in range(2)]
    for loader in loaders:
        loader.consumed_samples = start
    check_equal(delivered(whole(loaders[0])), delivered(from_rows(loaders[1])))


def test_mindspore_finds_out_the_same_about_them(blend):
    found, expected = whole(build(blend)), from_rows(build(blend))
    for dataset in (found, expected):
        assert dataset.get_batch_size() == 4
    found, expected = whole(build(blend)).project(COLUMNS[:2]), from_rows(build(blend)).project(COLUMNS[:2])
    assert found.get_batch_size() == expected.get_batch_size() == 4
    assert found.get_dataset_size() == expected.get_dataset_size() == 10
    assert found.output_shapes() == expected.output_shapes()
    assert found.output_types() == expected.output_types()
    assert found.get_col_names() == expected.get_col_names()
    assert found.get_repeat_count() == expected.get_repeat_count()


def test_more_steps_can_follow(blend):
    def with_more(dataset):
        dataset = dataset.map(lambda ids: ids + 1, input_columns=["input_ids"]).project(["labels", "input_ids"])
        return delivered(dataset.repeat(2), epochs=1)

    check_equal(with_more(whole(build(blend))), with_more(from_rows(build(blend))))


def test_batches_of_a_part_of_a_step_can_be_batched_again(blend):
    rows = [batch["input_ids"].reshape(4, 32) for batch in delivered(build(blend).batch(2).batch(2))]
    np.testing.assert_array_equal(rows, [batch["input_ids"] for batch in delivered(from_rows(build(blend)))])


def test_the_columns_own_names_and_threads_change_nothing(blend):
    asked = {"drop_remainder": True, "output_columns": COLUMNS, "num_parallel_workers": 2, "per_batch_map": None}
    check_equal(delivered(whole(build(blend), **asked)), delivered(from_rows(build(blend))))


@pytest.mark.parametrize(
    "options",
    [
        {"per_batch_map": lambda ids, info: ([row + 1 for row in ids],), "input_columns": ["input_ids"]},
        {"output_columns": [f"{name}_2" for name in COLUMNS]},
    ],
)
def test_what_changes_them_is_left_to_mindspore(blend, options):
    check_equal(delivered(build(blend).batch(4, **options)), delivered(from_rows(build(blend), **options)))


def test_mindspore_refuses_what_it_does_not_know(blend):
    with pytest.raises(TypeError):
        build(blend).batch(4, no_such_option=1)
    for size in (0, -3, "4"):
        with pytest.raises((TypeError, ValueError)):
            build(blend).batch(size)


@pytest.mark.parametrize("batched", [True, False])
def test_whoever_writes_to_what_was_delivered_spoils_nothing_else(blend, batched):
    """MindSpore hands arrays on without copying them, as writable ones."""
    options = {"reset_position_ids": False, "loss_mask": "none", "reset_attention_mask": False}
    loader = build(blend, **options)
    dataset = whole(loader) if batched else loader
    iterator = dataset.create_dict_iterator(num_epochs=3, output_numpy=True)
    expected = SamplePlan.build(
        blend["dataset_dir"],
        dataset_weights=blend["dataset_weights"],
        seq_length=blend["seq_length"],
        seed=blend["seed"],
        columns=COLUMNS,
    ).read(np.arange(120))
    sample = 0
    for _ in range(3):
        for batch in iterator:
            for name in COLUMNS:
                rows = batch[name] if batched else batch[name][None]
                np.testing.assert_array_equal(rows, expected[name][sample : sample + len(rows)])
                rows[:] = -1
            sample += len(rows)
    assert sample == 120
