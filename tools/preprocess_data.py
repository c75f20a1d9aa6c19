#!/usr/bin/env python3
"""Megatron's ``tools/preprocess_data.py`` by name and options; ``mfm preprocess`` does the same with fewer."""

import sys

from mindformers_megatron.cli.megatron_preprocess import main

if __name__ == "__main__":
    sys.exit(main())
