"""``mfm preprocess``: JSONL → ``.bin/.idx``."""

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mindformers_megatron.tokenization.preprocess import PreprocessReport, PreprocessSpec


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's options."""
    group = parser.add_argument_group("input")
    group.add_argument(
        "--input", nargs="+", required=True, metavar="FILE", help="JSONL files, or glob patterns in quotes"
    )
    group.add_argument(
        "--json-keys", nargs="+", default=["text"], metavar="KEY", help="where the texts are; a pair for each (text)"
    )
    group = parser.add_argument_group("tokenizer")
    group.add_argument(
        "--tokenizer",
        type=Path,
        metavar="PATH",
        help="folder with a tokenizer.json, that file, or a SentencePiece .model",
    )
    group.add_argument("--vocab-file", type=Path, metavar="FILE", help="GPT-2's vocab.json, instead of --tokenizer")
    group.add_argument("--merge-file", type=Path, metavar="FILE", help="GPT-2's merges.txt, with --vocab-file")
    group.add_argument(
        "--add-special-tokens",
        action="store_true",
        help="add to each text what the tokenizer adds around one, such as <s>",
    )
    group.add_argument("--append-eod", action="store_true", help="end each document with the end-of-document token")
    group.add_argument("--eod-token", metavar="TOKEN", help="that token (the one the tokenizer's files name)")
    group.add_argument("--eod-id", type=int, metavar="ID", help="the same by its id")
    group = parser.add_argument_group("output")
    group.add_argument(
        "--output-prefix", required=True, metavar="PREFIX", help="writes PREFIX_KEY_document.bin, .idx, ..."
    )
    group.add_argument("--seq-length", type=int, metavar="N", help="noted in the metadata; the pair fits every length")
    add_run_arguments(parser.add_argument_group("run"))


def add_run_arguments(group: "argparse._ArgumentGroup") -> None:
    """The options about how the work is done, which do not change the output."""
    group.add_argument("--workers", type=int, metavar="N", help="processes (one per core)")
    group.add_argument(
        "--on-error",
        type=_rejects_allowed,
        default=0,
        dest="rejects_allowed",
        metavar="fail|skip|N",
        help="at a line that is no record: fail, skip it and list it in PREFIX.rejected.jsonl, or skip N (fail)",
    )
    group.add_argument("--json", action="store_true", help="print the summary as JSON")


def run(args: argparse.Namespace) -> int:
    """Runs the command."""
    from mindformers_megatron.tokenization.preprocess import PreprocessSpec
    from mindformers_megatron.tokenization.tokenizer import TokenizerSpec

    tokenizer = TokenizerSpec(
        path=args.tokenizer,
        vocab_file=args.vocab_file,
        merge_file=args.merge_file,
        add_special_tokens=args.add_special_tokens,
        eod_token=args.eod_token,
        eod_id=args.eod_id,
    )
    spec = PreprocessSpec(
        inputs=args.input,
        output_prefix=args.output_prefix,
        tokenizer=tokenizer,
        json_keys=tuple(args.json_keys),
        append_eod=args.append_eod,
        rejects_allowed=args.rejects_allowed,
        seq_length=args.seq_length,
        workers=args.workers,
    )
    return carry_out(spec, as_json=args.json)


def carry_out(spec: "PreprocessSpec", *, as_json: bool, every_documents: int | None = None) -> int:
    """Does what is asked, showing progress on stderr and a summary on stdout; returns the exit code."""
    from mindformers_megatron.cli.progress import EncodingProgress
    from mindformers_megatron.tokenization.preprocess import preprocess

    progress = EncodingProgress(every_documents)
    try:
        report = preprocess(spec, progress)
    finally:
        progress.close()
    print(json.dumps(report.to_json(), indent=2) if as_json else _summary(report))
    return 0


def _summary(report: "PreprocessReport") -> str:
    counts = report.counts
    lines = [
        f"{prefix}.bin/.idx: {pair.num_documents:,} documents, {pair.num_tokens:,} tokens ({report.dtype})"
        for prefix, pair in report.pairs.items()
    ]
    megabytes, seconds = report.input_bytes / 1e6, report.seconds
    rates = f"{megabytes / seconds:,.1f} MB/s, {counts.tokens / seconds:,.0f} tokens/s"
    lines.append(f"{megabytes:,.1f} MB in {seconds:.1f} s: {rates}")
    if counts.blanks:
        lines.append(f"{counts.blanks:,} blank lines skipped")
    if counts.rejects:
        lines.append(f"{counts.rejects:,} bad lines skipped, listed in {report.rejects_path}")
    return "\n".join(lines)


def _rejects_allowed(text: str) -> int | None:
    if text in ("fail", "skip"):
        return 0 if text == "fail" else None
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is none of: fail, skip, a number")
    return int(text)
