"""``mfm decontaminate``: evaluation texts found in training texts, and taken out of them."""

import argparse


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of ``mfm decontaminate``."""
    from mindformers_megatron.cli.one_step import add_common_arguments

    add_common_arguments(parser)
    group = parser.add_argument_group("what is looked for")
    group.add_argument(
        "--against",
        nargs="+",
        required=True,
        metavar="FILE",
        help="evaluation sets: JSONL of any keys, or plain text",
    )
    group.add_argument("--ngram", type=int, default=13, metavar="N", help="words, or characters, of an n-gram (13)")
    group.add_argument(
        "--action",
        choices=("drop", "cut", "report"),
        default="drop",
        help="drop documents, cut text out, or report",
    )
    group.add_argument("--margin", type=int, default=0, metavar="N", help="characters cut around it too (0)")


def run(args: argparse.Namespace) -> int:
    """Runs the command."""
    from pathlib import Path

    from mindformers_megatron.cli.one_step import run_steps

    evaluation: dict[str, dict[str, list[str]]] = {}
    for path in args.against:
        evaluation.setdefault(Path(path).name.split(".")[0], {"paths": []})["paths"].append(path)
    options = {"ngram": args.ngram, "action": args.action, "margin": args.margin, "shortest": min(8, args.ngram)}
    return run_steps(args, [{"decontaminate": options}], evaluation)
