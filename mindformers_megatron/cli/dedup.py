"""``mfm dedup``: copies and near copies of documents dropped."""

import argparse
from typing import Any


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of ``mfm dedup``."""
    from mindformers_megatron.cli.one_step import add_common_arguments

    add_common_arguments(parser)
    group = parser.add_argument_group("what is compared")
    group.add_argument(
        "--exact",
        nargs="*",
        default=["document"],
        choices=("document", "prefix", "paragraph", "line"),
        help="what copies are looked for of; nothing behind it: none (document)",
    )
    group.add_argument("--near", type=float, default=0.7, metavar="JACCARD", help="similarity from which on (0.7)")
    group.add_argument("--no-near", action="store_true", help="exact copies only")
    group.add_argument("--ngram", type=int, default=5, metavar="N", help="words, or characters, of a shingle (5)")
    group.add_argument("--keep", choices=("first", "longest"), default="first", help="of those alike (first)")

    group = parser.add_argument_group("a corpus that grows")
    group.add_argument(
        "--index",
        metavar="FOLDER|redis://…",
        help="drop what is near to documents of this index, and add those kept; it is made if it is not there",
    )
    group.add_argument("--index-read-only", action="store_true", help="compare with the index, and add nothing")


def run(args: argparse.Namespace) -> int:
    """Runs the command."""
    from mindformers_megatron.cli.one_step import run_steps
    from mindformers_megatron.errors import ConfigError

    steps: list[dict[str, Any]] = [{"exact_dedup": {"unit": unit}} for unit in args.exact]
    if not args.no_near:
        near = {"threshold": args.near, "ngram": args.ngram, "keep": args.keep}
        steps.append({"near_dedup": {**near, "index": args.index, "index_read_only": args.index_read_only}})
    elif args.index:
        raise ConfigError("--index is for near duplicates, and --no-near leaves these out; give one of the two")
    if not steps:
        raise ConfigError("--exact names nothing, and --no-near leaves the rest out; there is nothing to do")
    return run_steps(args, steps)
