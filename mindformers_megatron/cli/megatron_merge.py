"""The command line of Megatron's ``tools/merge_datasets.py``, for scripts that have it already."""

import argparse
from collections.abc import Sequence

from mindformers_megatron.cli.exit_codes import exit_code
from mindformers_megatron.cli.merge import merge

PROGRAM = "merge_datasets.py"


def build_parser() -> argparse.ArgumentParser:
    """Builds the parser."""
    parser = argparse.ArgumentParser(prog=PROGRAM, description="Join the pairs of a folder into one pair.")
    group = parser.add_argument_group("input data")
    group.add_argument("--input", required=True, metavar="DIR", help="folder with the pairs, joined by name")
    group = parser.add_argument_group("output data")
    group.add_argument("--output-prefix", required=True, metavar="PREFIX", help="path without suffix")
    group = parser.add_argument_group("miscellaneous")
    group.add_argument("--multimodal", action="store_true", help="the pairs hold a mode for each sequence")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the program; returns its exit code."""
    args = build_parser().parse_args(argv)

    def work() -> int:
        from mindformers_megatron.format.folders import pairs_in

        parts = pairs_in(args.input, leave_out=args.output_prefix)
        return merge(PROGRAM, parts, args.output_prefix, multimodal=args.multimodal)

    return exit_code(PROGRAM, work)
