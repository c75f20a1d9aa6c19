"""Run by msrun: ranks prove that they read one plan, in several situations; each writes down what came of them."""

import json
import os
import sys
from pathlib import Path

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
    starts = dict.fromkeys(situations, 0) | {"start": rank}
    outcomes = {}
    for name, start in starts.items():
        options = {"shard_id": rank, "num_shards": 2, **situations.get(name, {})}
        loader = BlendedMegatronDataLoader(**{**blend, **options})
        try:
            prove_agreement(loader, start)
            outcomes[name] = "fine"
        except ConfigError as error:
            outcomes[name] = str(error)
    Path(f"outcomes_{rank}.json").write_text(json.dumps(outcomes))


sys.exit(main())
