"""Run by msrun: ranks prove that they read one plan, in several situations; prints what came of each."""

import json
import os
import sys

import mindspore
from mindspore.communication import get_rank, init

from mindformers_megatron.errors import ConfigError
from mindformers_megatron.loader import BlendedMegatronDataLoader
from mindformers_megatron.loader.agreement import prove_agreement


def main():
    blend = json.loads(os.environ["BLEND"])
    mindspore.set_context(device_target="CPU")
    init()
    rank = get_rank()
    situations = {
        "agree": {},
        "seed": {"seed": rank},
        "mask": {"loss_mask": ("none", "boundary")[rank]},
        "shard": {"shard_id": 0},
        "alike": {"shard_id": 0, "num_shards": 1},
    }
    for name, options in situations.items():
        loader = BlendedMegatronDataLoader(**{**blend, "shard_id": rank, "num_shards": 2, **options})
        try:
            prove_agreement(loader, 0)
            print("OUTCOME", rank, name, "fine", flush=True)
        except ConfigError as error:
            print("OUTCOME", rank, name, error, flush=True)
    try:
        prove_agreement(BlendedMegatronDataLoader(**blend, shard_id=rank, num_shards=2), rank)
    except ConfigError as error:
        print("OUTCOME", rank, "start", error, flush=True)


sys.exit(main())
