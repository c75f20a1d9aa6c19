"""The sampler behind MindSpore's pipeline."""

import pytest

from mindformers_megatron.sampling.shards import Shard

pytestmark = pytest.mark.train


def test_each_call_of_the_sampler_is_the_next_epoch():
    from mindformers_megatron.loader.sampler import StreamSampler

    sampler = StreamSampler(Shard(1, 2), rows=3)
    sampler.start = 100
    assert [sampler.get_indices().tolist() for _ in range(3)] == [[101, 103, 105], [107, 109, 111], [113, 115, 117]]
