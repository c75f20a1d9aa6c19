#!/usr/bin/env python3
"""Megatron's ``tools/merge_datasets.py`` by name and options; ``mfm merge`` does the same with fewer."""

import sys

from mindformers_megatron.cli.megatron_merge import main

if __name__ == "__main__":
    sys.exit(main())
