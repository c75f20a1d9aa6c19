"""``mfm``: the table of commands, and how errors become exit codes."""

import argparse
import os
import sys
from collections.abc import Sequence
from importlib import import_module

from mindformers_megatron._version import __version__
from mindformers_megatron.cli.exit_codes import exit_code

# Command → one line of help. Each lives in the module of its name (dashes as underscores) with
# ``add_arguments(parser)`` and ``run(args) -> int``; only the module of the command asked for is imported.
COMMANDS = {
    "train-tokenizer": "train a tokenizer: byte-level BPE, or SentencePiece BPE or unigram",
    "eval-tokenizer": "compare tokenizers and sizes of vocabulary on a corpus, by source and language",
    "preprocess": "tokenize JSONL into a .bin/.idx pair, byte-identical to Megatron's",
    "prepare": "carry out a recipe: clean, filter, deduplicate, split and tokenize raw text, with a report",
    "clean": "clean and filter documents, step by step as in a recipe, from files to a file",
    "dedup": "drop copies and near copies of documents, from files to a file",
    "decontaminate": "find evaluation sets in training texts, and take them out, from files to a file",
    "merge": "join pairs into one, as Megatron's merge_datasets.py does, with metadata and provenance",
    "split": "cut a pair between documents, into train, valid and test or into shards",
    "inspect": "show what a pair is: its header, its metadata, and some of its documents",
    "head": "show the first documents of a pair",
    "stats": "count documents, tokens and lengths of a pair, by source where that is known",
    "diff": "are two pairs the same documents, in the same order, under the same tokenizer",
    "verify": "is a pair sound, and if not, which documents are damaged, and how",
    "repair": "write a new pair without the damaged documents of an old one, or with them made anew",
    "convert": "read and write the layouts of others: .npz, pickle, JSON, MSPT, TNTIDX, Parquet, Arrow, MindRecord",
    "blend": "show what the mix of a run will be, before any training",
    "trace": "show what a step was given, down to the documents, or where a document was seen",
    "report": "write what there is to see about a corpus or a run, as one HTML file",
    "serve": "show the report in a browser on this machine, with look-ups of steps and documents",
    "train": "run MindFormers' Trainer on a YAML, with the loaders registered",
    "demo": "real text to a killed and exactly resumed training run, in minutes, on CPU",
}


def build_parser(command: str | None) -> argparse.ArgumentParser:
    """Builds the parser; only ``command``'s own options are filled in, so that ``mfm --help`` stays instant."""
    parser = argparse.ArgumentParser(prog="mfm", description="Megatron .bin/.idx data for MindSpore and MindFormers.")
    parser.add_argument("--version", action="version", version=f"mfm {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name, summary in COMMANDS.items():
        sub = commands.add_parser(name, help=summary, description=summary[0].upper() + summary[1:] + ".")
        if name == command:
            import_module(f"mindformers_megatron.cli.{name.replace('-', '_')}").add_arguments(sub)
    return parser


def run(argv: Sequence[str]) -> int:
    """Parses and runs one command; returns its exit code (0 done, 1 failed work, 2 usage)."""
    command = next((word for word in argv if not word.startswith("-")), None)
    args = parse(build_parser(command), argv)
    module = import_module(f"mindformers_megatron.cli.{args.command.replace('-', '_')}")
    return exit_code(f"mfm {args.command}", lambda: int(module.run(args)))


def parse(parser: argparse.ArgumentParser, argv: Sequence[str]) -> argparse.Namespace:
    """Parses arguments; settings (``key=value``) may stand before, between and behind the options."""
    args, left = parser.parse_known_args(argv)
    if hasattr(args, "overrides"):
        # argparse takes a list of arguments only where all of it stands together.
        args.overrides += [word for word in left if "=" in word and not word.startswith("-")]
        left = [word for word in left if "=" not in word or word.startswith("-")]
    if left:
        parser.error(f"unrecognized arguments: {' '.join(left)}")
    return args


def main() -> None:
    """The ``mfm`` command."""
    # Arrow's own allocators keep what was freed: processes that read and write shards would take half as much again.
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
    sys.exit(run(sys.argv[1:]))
