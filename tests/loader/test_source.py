"""What the source returns depends on the number asked for, and on nothing that was asked before."""

import multiprocessing
import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mindformers_megatron.sampling.plan import SamplePlan

pytestmark = pytest.mark.train


@pytest.fixture(scope="module")
def plan(corpora):
    return SamplePlan.build(
        corpora, seq_length=32, columns=["input_ids", "labels", "loss_mask", "position_ids", "actual_seq_len"]
    )


def source_of(plan, **options):
    from mindformers_megatron.loader.source import SampleSource

    return SampleSource(plan, **options)


def check(source, plan, samples):
    for sample in samples:
        expected = plan.read(np.array([sample]))
        for name, column in zip(plan.spec.columns, source[sample], strict=True):
            np.testing.assert_array_equal(column, expected[name][0])


@settings(max_examples=30)
@given(samples=st.lists(st.integers(0, 10_000), min_size=1, max_size=20), stride=st.integers(1, 5))
def test_any_row_in_any_order_is_the_plans_own(plan, samples, stride):
    check(source_of(plan, stride=stride), plan, samples)


def test_it_goes_on_behind_an_epoch(plan):
    check(source_of(plan), plan, [len(plan) - 1, len(plan), 1000 * len(plan)])


def test_threads_that_read_at_once_get_the_same_rows(plan):
    source = source_of(plan, stride=3)
    with ThreadPoolExecutor(4) as pool:
        rows = list(pool.map(lambda sample: source[sample], range(600)))
    expected = plan.read(np.arange(600))
    np.testing.assert_array_equal([row[0] for row in rows], expected["input_ids"])


def test_a_copy_for_another_process_has_the_same_rows(plan):
    source = source_of(plan)
    before = source[7]
    check(pickle.loads(pickle.dumps(source)), plan, [7, 8])
    np.testing.assert_array_equal(before[0], source[7][0])


def test_its_memory_is_bounded_where_rows_are_large(corpora):
    plan = SamplePlan.build(corpora, seq_length=2048, columns=["input_ids", "attention_mask"])
    row = source_of(plan)[3]
    assert row[1].shape == (1, 2048, 2048)
    np.testing.assert_array_equal(row[1][0], np.triu(np.ones((2048, 2048), np.int32), 1))


def test_a_forked_process_that_inherits_it_in_use_reads_on(plan):
    source = source_of(plan)
    source[300]
    with source._lock, multiprocessing.get_context("fork").Pool(1) as pool:
        row = pool.apply_async(source.__getitem__, (301,)).get(timeout=60)
    np.testing.assert_array_equal(row[0], plan.read(np.array([301]))["input_ids"][0])


@settings(max_examples=30)
@given(
    samples=st.lists(st.integers(0, 10_000), min_size=1, max_size=20),
    stride=st.integers(1, 5),
    batch_size=st.integers(1, 9),
)
def test_any_batch_in_any_order_is_the_plans_own(plan, samples, stride, batch_size):
    source = source_of(plan, stride=stride).in_batches(batch_size)
    for first in samples:
        expected = plan.read(first + stride * np.arange(batch_size))
        for name, column in zip(plan.spec.columns, source[first], strict=True):
            np.testing.assert_array_equal(column, expected[name])
            assert column.flags.c_contiguous and column.flags.writeable


def test_what_is_asked_for_again_is_read_again(plan):
    for source in (source_of(plan), source_of(plan).in_batches(4)):
        for column in source[8]:
            column[:] = -1
        again = [column if column.ndim == 2 else column[None] for column in source[8]]
        expected = plan.read(8 + np.arange(len(again[0])))
        for name, column in zip(plan.spec.columns, again, strict=True):
            np.testing.assert_array_equal(column, expected[name])


def test_threads_that_want_the_same_row_each_get_one(plan):
    source = source_of(plan)
    with ThreadPoolExecutor(8) as pool:
        rows = list(pool.map(lambda sample: source[sample], [3] * 200))
    assert len({id(row[0]) for row in rows}) == 200
    np.testing.assert_array_equal([row[0] for row in rows], np.repeat(plan.read(np.array([3]))["input_ids"], 200, 0))


def test_where_an_order_ends_no_batch_is_short(corpora):
    from mindformers_megatron.errors import ConfigError, DataError

    plan = SamplePlan.build(corpora[:1], seq_length=32, order="megatron", num_samples=40)
    source = source_of(plan).in_batches(4)
    whole = plan.end // 4
    assert len(source[4 * (whole - 1)][0]) == 4
    with pytest.raises((ConfigError, DataError, IndexError), match=str(plan.end)):
        source[4 * (whole - 1) + 2]
