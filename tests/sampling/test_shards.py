"""Ranks share the stream sample by sample, and the number of ranks changes nothing about a global batch."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mindformers_megatron.errors import ConfigError
from mindformers_megatron.sampling.shards import Shard, steps_per_epoch


@given(st.integers(1, 12), st.integers(1, 6), st.integers(0, 10**12), st.integers(0, 50))
def test_every_number_of_ranks_sees_the_same_global_batch_and_no_rank_sees_anothers_rows(ranks, rows, start, step):
    taken = [Shard(rank, ranks).samples(start, step * rows, rows) for rank in range(ranks)]
    global_batch = ranks * rows
    expected = np.arange(start + step * global_batch, start + (step + 1) * global_batch)
    np.testing.assert_array_equal(np.sort(np.concatenate(taken)), expected)
    for rank, samples in enumerate(taken):
        np.testing.assert_array_equal(samples, expected[rank::ranks])


@pytest.mark.parametrize("num_samples, steps", [(1, 1), (8, 1), (15, 1), (16, 2), (17, 2)])
def test_an_epoch_has_whole_global_batches_and_at_least_one(num_samples, steps):
    assert steps_per_epoch(num_samples, global_batch_size=8) == steps


@pytest.mark.parametrize("pair", [(None, 2), (0, None), (2, 2), (-1, 2), (0, 0), (True, 2), ("0", 2)])
def test_a_shard_that_is_none_is_refused(pair):
    with pytest.raises(ConfigError, match="shard_id"):
        Shard.of(*pair)


def test_no_shard_means_everything():
    assert Shard.of(None, None) == Shard(0, 1)
