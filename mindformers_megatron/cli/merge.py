"""``mfm merge``: pairs → one pair."""

import argparse
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from mindformers_megatron.cli.pair_arguments import named_pairs
from mindformers_megatron.cli.written_pair import counts_of, summary_of


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's options."""
    parser.add_argument(
        "input",
        nargs="+",
        metavar="PART",
        help="prefix, .bin or .idx of a pair, or a folder: its pairs in the order of their names",
    )
    parser.add_argument("--output-prefix", required=True, metavar="PREFIX", help="writes PREFIX.bin, PREFIX.idx, ...")
    parser.add_argument("--multimodal", action="store_true", help="the pairs hold a mode for each sequence")
    parser.add_argument("--json", action="store_true", help="print the summary as JSON")


def run(args: argparse.Namespace) -> int:
    """Runs the command."""
    parts = named_pairs(args.input, leave_out=args.output_prefix)
    return merge("mfm merge", parts, args.output_prefix, multimodal=args.multimodal, as_json=args.json)


def merge(program: str, parts: Sequence[str], prefix: str, *, multimodal: bool, as_json: bool = False) -> int:
    """Joins pairs, showing progress and warnings on stderr and a summary on stdout; returns the exit code."""
    from mindformers_megatron.cli.copy_progress import CopyProgress
    from mindformers_megatron.format.merge import merge_pairs
    from mindformers_megatron.format.paths import bin_path, prefix_of

    # ``part.*`` names a pair by both of its files; who wants it twice merges twice.
    by_path: dict[str, str] = {}
    for part in parts:
        by_path.setdefault(os.path.realpath(prefix_of(part)), prefix_of(part))
    sources = list(by_path.values())
    total = sum(path.stat().st_size for path in map(bin_path, sources) if path.is_file())
    Path(prefix).parent.mkdir(parents=True, exist_ok=True)
    with CopyProgress("merging", total) as progress:
        merged = merge_pairs(sources, prefix, multimodal=multimodal, on_bytes=progress)
    for warning in merged.warnings:
        print(f"{program}: warning: {warning}", file=sys.stderr)
    if as_json:
        summary = {
            "prefix": merged.prefix,
            "parts": list(merged.parts),
            "dtype": merged.dtype,
            **summary_of(merged.written),
            "metadata": merged.has_metadata,
            "docs": merged.has_docs,
            "warnings": list(merged.warnings),
        }
        print(json.dumps(summary, indent=2))
    else:
        print(f"{merged.prefix}.bin/.idx: {len(merged.parts):,} parts, {counts_of(merged.written)} ({merged.dtype})")
    return 0
