#!/usr/bin/env python
"""``mfm train`` as a script, for launchers that want one: ``msrun --worker_num 8 ... tools/train.py --config FILE``."""

import sys

from mindformers_megatron.cli.main import run

if __name__ == "__main__":
    sys.exit(run(["train", *sys.argv[1:]]))
