"""``python -m mindformers_megatron.cli``: the ``mfm`` command where no script is installed."""

from mindformers_megatron.cli.main import main

main()
