"""Ranks share the stream sample by sample, and the number of ranks changes nothing about a global batch."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mindformers_megatron.errors import ConfigError

pytestmark = pytest.mark.train


def shards():
    from mindformers_megatron.loader import shards

    return shards


@settings(deadline=None)
@given(st.integers(1, 12), st.integers(1, 6), st.integers(0, 10**12), st.integers(0, 50))
def test_every_number_of_ranks_sees_the_same_global_batch_and_no_rank_sees_anothers_rows(ranks, rows, start, step):
    taken = [shards().Shard(rank, ranks).samples(start, step * rows, rows) for rank in range(ranks)]
    global_batch = ranks * rows
    expected = np.arange(start + step * global_batch, start + (step + 1) * global_batch)
    np.testing.assert_array_equal(np.sort(np.concatenate(taken)), expected)
    for rank, samples in enumerate(taken):
        np.testing.assert_array_equal(samples, expected[rank::ranks])


def test_each_call_of_the_sampler_is_the_next_epoch():
    sampler = shards().StreamSampler(shards().Shard(1, 2), rows=3)
    sampler.start = 100
    assert [sampler.get_indices().tolist() for _ in range(3)] == [[101, 103, 105], [107, 109, 111], [113, 115, 117]]


@pytest.mark.parametrize("num_samples, steps", [(1, 1), (8, 1), (15, 1), (16, 2), (17, 2)])
def test_an_epoch_has_whole_global_batches_and_at_least_one(num_samples, steps):
    assert shards().steps_per_epoch(num_samples, global_batch_size=8) == steps


@pytest.mark.parametrize("pair", [(None, 2), (0, None), (2, 2), (-1, 2), (0, 0), (True, 2), ("0", 2)])
def test_a_shard_that_is_none_is_refused(pair):
    with pytest.raises(ConfigError, match="shard_id"):
        shards().Shard.of(*pair)


def test_no_shard_means_everything():
    assert shards().Shard.of(None, None) == shards().Shard(0, 1)
