"""``mfm split``: one pair → several, cut between documents."""

import argparse
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mindformers_megatron.format.index import Index
    from mindformers_megatron.format.split import Part

_SHARD = re.compile(r"_(\d{5,})-of-(\d{5,})\.idx")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's options."""
    parser.add_argument("input", metavar="PAIR", help="its prefix, .bin or .idx")
    parser.add_argument(
        "--output-prefix",
        required=True,
        metavar="PREFIX",
        help="writes PREFIX_train, PREFIX_valid, PREFIX_test, or PREFIX_00000-of-00008, ...",
    )
    how = parser.add_mutually_exclusive_group(required=True)
    how.add_argument(
        "--split", metavar="A,B,C", help="shares of train, valid and test in documents, as Megatron's: 969,30,1"
    )
    how.add_argument("--shards", type=int, metavar="N", help="N shards of about the same number of tokens")
    how.add_argument("--documents-per-shard", type=int, metavar="N", help="shards of N documents, the last of fewer")
    how.add_argument("--tokens-per-shard", type=int, metavar="N", help="shards of whole documents up to N tokens")
    parser.add_argument("--multimodal", action="store_true", help="the pair holds a mode for each sequence")
    parser.add_argument("--json", action="store_true", help="print the summary as JSON")


def run(args: argparse.Namespace) -> int:
    """Runs the command."""
    from mindformers_megatron.cli.copy_progress import CopyProgress
    from mindformers_megatron.format.index import read_index
    from mindformers_megatron.format.paths import docs_path, metadata_path
    from mindformers_megatron.format.split import split_pair

    index = read_index(args.input, multimodal=args.multimodal)
    parts = list(_shares(index, args) if args.split is not None else _shards(index, args))
    Path(args.output_prefix).parent.mkdir(parents=True, exist_ok=True)
    with CopyProgress("splitting", index.num_tokens * index.dtype.itemsize) as progress:
        pairs = split_pair(index.prefix, parts, multimodal=args.multimodal, on_bytes=progress)
    for path, what in ((metadata_path(index.prefix), "metadata"), (docs_path(index.prefix), "provenance")):
        if not path.exists():
            print(f"mfm split: warning: {path.name} is not there, so no {what} was written", file=sys.stderr)
    if args.json:
        summary = [
            {
                "prefix": part.prefix,
                "first_document": part.begin,
                "documents": pair.num_documents,
                "sequences": pair.num_sequences,
                "tokens": pair.num_tokens,
                "bin_sha256": pair.bin_sha256,
                "idx_sha256": pair.idx_sha256,
            }
            for part, pair in zip(parts, pairs, strict=True)
        ]
        print(json.dumps({"input": index.prefix, "dtype": index.dtype.name, "parts": summary}, indent=2))
        return 0
    for part, pair in zip(parts, pairs, strict=True):
        print(f"{part.prefix}.bin/.idx: {pair.num_documents:,} documents, {pair.num_tokens:,} tokens")
    return 0


def _shares(index: "Index", args: argparse.Namespace) -> "Iterator[Part]":
    from mindformers_megatron.format.split import Part
    from mindformers_megatron.sampling.splits import Split, parse_split, split_range

    names: tuple[Split, ...] = ("train", "valid", "test")
    shares = parse_split(args.split)
    for name, share in zip(names, shares, strict=True):
        # A part that was given nothing is not there; one that was given something must get something.
        if share:
            begin, end = split_range(shares, name, index.num_documents, corpus=index.prefix)
            yield Part(f"{args.output_prefix}_{name}", begin, end)


def _shards(index: "Index", args: argparse.Namespace) -> "Iterator[Part]":
    from mindformers_megatron.format.split import Part, cut_by_documents, cut_by_tokens, cut_evenly

    if args.shards is not None:
        cuts = cut_evenly(index, args.shards)
    elif args.documents_per_shard is not None:
        cuts = cut_by_documents(index, args.documents_per_shard)
    else:
        cuts = cut_by_tokens(index, args.tokens_per_shard)
    count = len(cuts) - 1
    _refuse_other_shards(args.output_prefix, count)
    for number in range(count):
        yield Part(f"{args.output_prefix}_{number:05}-of-{count:05}", cuts[number], cuts[number + 1])


def _refuse_other_shards(prefix: str, count: int) -> None:
    """Shards of an earlier run into another number would be taken for further ones of this run."""
    from mindformers_megatron.errors import ConfigError

    folder, stem = Path(prefix).parent, Path(prefix).name
    for path in sorted(folder.iterdir()) if folder.is_dir() else ():
        shard = _SHARD.fullmatch(path.name.removeprefix(stem)) if path.name.startswith(stem) else None
        if shard and int(shard[2]) != count:
            raise ConfigError(
                f"{path}: is one of {int(shard[2])} shards of an earlier split, and now there are {count}; remove "
                "those, or choose another --output-prefix"
            )
