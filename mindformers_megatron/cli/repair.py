"""``mfm repair``: a new pair without what is damaged in an old one, or with it made anew."""

import argparse
import json
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mindformers_megatron.cli.scanning import add_workers, scanning
from mindformers_megatron.cli.written_pair import counts_of, summary_of
from mindformers_megatron.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mindformers_megatron.format.repair import RepairedPair
    from mindformers_megatron.format.verify.findings import Verdict


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's options."""
    parser.add_argument(
        "input", metavar="PREFIX", help="prefix, .bin or .idx of the damaged pair, which stays as it is"
    )
    parser.add_argument("-o", "--output-prefix", required=True, metavar="NEW", help="writes NEW.bin, NEW.idx, ...")
    how = parser.add_mutually_exclusive_group(required=True)
    how.add_argument("--drop", action="store_true", help="leave the damaged documents out")
    how.add_argument(
        "--retokenize", action="store_true", help="make them anew from the raw text that docs.parquet names"
    )
    parser.add_argument("--tokenizer", type=Path, metavar="PATH", help="with --retokenize: what made the pair")
    parser.add_argument(
        "--sources", type=Path, default=Path(), metavar="DIR", help="with --retokenize: where the raw text is (here)"
    )
    parser.add_argument("--vocab-size", type=int, metavar="N", help="ids are below it (as the metadata says)")
    parser.add_argument("--eod-id", type=int, metavar="ID", help="documents end with it (as the metadata says)")
    parser.add_argument("--multimodal", action="store_true", help="the pair holds a mode for each sequence")
    add_workers(parser)
    parser.add_argument("--json", action="store_true", help="print the summary as JSON")


def run(args: argparse.Namespace) -> int:
    """Runs the command."""
    from mindformers_megatron.cli.copy_progress import CopyProgress
    from mindformers_megatron.format.paths import prefix_of
    from mindformers_megatron.format.repair import repair_pair
    from mindformers_megatron.format.verify.pair import bytes_looked_at, verify_pair
    from mindformers_megatron.tokenization.retokenize import Retokenizer, compare_with_sources, raw_bytes

    if args.retokenize and args.tokenizer is None:
        raise ConfigError("--retokenize needs what made the pair; give it as --tokenizer")
    prefix = prefix_of(args.input)
    with scanning("verifying", bytes_looked_at(prefix), args.workers) as run_tasks:
        verdict = verify_pair(
            prefix,
            full=True,
            vocab_size=args.vocab_size,
            eod_id=args.eod_id,
            multimodal=args.multimodal,
            run=run_tasks,
        )
    if verdict.sound:
        print(json.dumps({"prefix": prefix, "sound": True}) if args.json else f"{prefix}: sound; nothing to repair")
        return 0
    with ExitStack() as stack:
        remake = None
        if args.tokenizer is not None:
            hashing = stack.enter_context(CopyProgress("reading raw text", raw_bytes(prefix)))
            retokenizer = Retokenizer(prefix, args.tokenizer, args.sources, hashing)
            remake = retokenizer.remake if args.retokenize else None
            # What was changed into another id shows in no other way.
            if verdict.readable and verdict.counts.get("checksum"):
                verdict = compare_with_sources(verdict, retokenizer)
        Path(args.output_prefix).parent.mkdir(parents=True, exist_ok=True)
        repaired = repair_pair(verdict, args.output_prefix, remake=remake, multimodal=args.multimodal)
    for warning in _warnings(verdict, repaired, compared=args.tokenizer is not None):
        print(f"mfm repair: warning: {warning}", file=sys.stderr)
    print(json.dumps(_summary(repaired), indent=2) if args.json else _text(repaired))
    return 0


def _warnings(verdict: "Verdict", repaired: "RepairedPair", *, compared: bool) -> "Iterator[str]":
    for finding in verdict.findings:
        if finding.kind in ("metadata", "provenance"):
            yield f"no {finding.kind} written: {finding.message}"
    if verdict.counts.get("checksum") and not compared:
        yield (
            "the old pair does not have its checksums; ids that were changed into other ids show only beside the raw "
            "text: give --tokenizer"
        )
    if repaired.remade and repaired.restored is False:
        yield f"{repaired.prefix} does not have the checksums that the metadata of the old pair names"


def _summary(repaired: "RepairedPair") -> dict[str, Any]:
    return {
        "prefix": repaired.prefix,
        **summary_of(repaired.written),
        "dropped": repaired.dropped,
        "remade": repaired.remade,
        "restored": repaired.restored,
        "metadata": repaired.has_metadata,
        "docs": repaired.has_docs,
    }


def _text(repaired: "RepairedPair") -> str:
    done = f"{repaired.remade:,} made anew" if repaired.remade else f"{repaired.dropped:,} left out"
    line = f"{repaired.prefix}.bin/.idx: {counts_of(repaired.written)}; {done}"
    return f"{line}; it has the checksums that the metadata names" if repaired.restored else line
