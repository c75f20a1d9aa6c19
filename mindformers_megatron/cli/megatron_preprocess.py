"""The command line of Megatron's ``tools/preprocess_data.py``, for scripts that have it already.

Options of Megatron-LM from 2024 to 2026, of MindFormers' ``preprocess_indexed_dataset.py``, and other spellings in use.
Those that said how the work was to be split are taken and change nothing: the output is the same for every number of
workers, in the order of the input.
"""

import argparse
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from mindformers_megatron.cli import preprocess
from mindformers_megatron.cli.exit_codes import exit_code
from mindformers_megatron.cli.preprocess import (
    INPUT_HELP,
    TOKENIZER_TYPES,
    add_run_arguments,
    add_sentence_arguments,
    add_text_arguments,
    carry_out,
    start_no_idle_threads,
    tokenizer_of,
)
from mindformers_megatron.errors import ConfigError

if TYPE_CHECKING:
    from mindformers_megatron.tokenization.preprocess import PreprocessSpec

PROGRAM = "preprocess_data.py"

_WITHOUT_EFFECT = {
    "--keep-sequential-samples": "the order of the input is always kept",
    "--trust-remote-code": "code that comes with a tokenizer is never run",
    "--legacy-tokenizer": "tokenizers are opened in one way",
    "--tokenizer-hf-use-fast": "tokenizers are always the fast ones",
    "--tokenizer-hf-no-use-fast": "tokenizers are always the fast ones",
    "--use-gigatoken": "it is used by itself where it gives the same ids",
}
_NUMBERS_WITHOUT_EFFECT = {
    "--partitions": "the input is cut by itself",
    "--vocab-extra-ids": "Megatron's tool sets it to 0",
}


def build_parser() -> argparse.ArgumentParser:
    """Builds the parser."""
    parser = argparse.ArgumentParser(
        prog=PROGRAM, description="Tokenize JSONL into .bin/.idx, byte-identical to Megatron's."
    )
    group = parser.add_argument_group("input data")
    group.add_argument("--input", "--input_path", nargs="+", required=True, metavar="INPUT", help=INPUT_HELP)
    group.add_argument("--json-keys", nargs="+", default=["text"], metavar="KEY", help="where the texts are (text)")
    group = parser.add_argument_group("tokenizer")
    group.add_argument("--tokenizer-type", metavar="TYPE", help=f"one of: {', '.join(TOKENIZER_TYPES)}")
    group.add_argument(
        "--tokenizer-model", "--tokenizer-dir", "--tokenizer-file", "--tokenizer", dest="tokenizer_model",
        metavar="PATH", help="folder with a tokenizer.json, that file, or a SentencePiece .model",
    )  # fmt: skip
    group.add_argument("--vocab-file", "--vocab", type=Path, metavar="FILE", help="GPT-2's vocab.json, or BERT's")
    group.add_argument("--merge-file", "--merges-file", type=Path, metavar="FILE", help="GPT-2's merges.txt")
    special = group.add_mutually_exclusive_group()
    special.add_argument(
        "--tokenizer-hf-no-include-special-tokens", action="store_false", dest="add_special_tokens",
        help="leave out what a Hugging Face tokenizer adds around a text",
    )  # fmt: skip
    special.add_argument(
        "--tokenizer-hf-include-special-tokens", action="store_true", dest="add_special_tokens", help="the default"
    )
    parser.set_defaults(add_special_tokens=True)
    group.add_argument("--append-eod", action="store_true", help="end each document with the end-of-document token")
    group.add_argument("--eod-token", metavar="TOKEN", help="that token (the one the tokenizer's files name)")
    group.add_argument("--eod-id", type=int, metavar="ID", help="the same by its id")
    add_text_arguments(group)
    add_sentence_arguments(parser.add_argument_group("sentences"))
    group = parser.add_argument_group("output data")
    group.add_argument(
        "--output-prefix", "--output_prefix", required=True, metavar="PREFIX", help="path without suffix"
    )
    group.add_argument("--dataset-impl", "--data-impl", default="mmap", metavar="mmap", help="there is no other")
    group.add_argument("--seq-length", "--seq_len", type=int, metavar="N", help="noted in the metadata")
    group = parser.add_argument_group("runtime")
    add_run_arguments(group)
    group.add_argument("--num_workers", type=int, dest="workers", metavar="N", help="the same as --workers")
    group.add_argument(
        "--log-interval", type=int, metavar="N", help="documents between lines of progress (ten seconds)"
    )
    group = parser.add_argument_group("taken, and without effect")
    for flag, reason in _WITHOUT_EFFECT.items():
        group.add_argument(flag, action="store_true", help=reason)
    for flag, reason in _NUMBERS_WITHOUT_EFFECT.items():
        group.add_argument(flag, type=int, metavar="N", help=reason)
    add_trial_arguments(parser.add_argument_group("trying numbers of workers"))
    return parser


def add_trial_arguments(group: "argparse._ArgumentGroup") -> None:
    """The options about finding the best number of workers."""
    group.add_argument(
        "--find-optimal-num-workers",
        action="store_true",
        help="tokenize the first documents with several numbers of workers, say which is fastest, and write nothing",
    )
    group.add_argument(
        "--workers-to-check", type=int, nargs="+", metavar="N", help="the numbers (1, 2, 4, ... up to one per core)"
    )
    group.add_argument(
        "--max-documents", type=int, default=100_000, metavar="N", help="documents to try them on (100000)"
    )


def find_workers(args: argparse.Namespace) -> int:
    """Tries numbers of workers, and prints the rate of each and the best."""
    from mindformers_megatron.tokenization.worker_trials import try_workers

    cores = len(os.sched_getaffinity(0))
    powers = [2**power for power in range(cores.bit_length())]
    counts = args.workers_to_check or sorted({*powers, cores})
    trials = []
    for trial in try_workers(spec_of(args), counts, args.max_documents):
        trials.append(trial)
        if not args.json:
            rates = f"{trial.documents / trial.seconds:,.0f} documents/s, {trial.bytes / 1e6 / trial.seconds:,.1f} MB/s"
            print(f"--workers {trial.workers}: {rates}", flush=True)
    best = min(trials, key=lambda trial: trial.seconds).workers
    if args.json:
        tried = [
            {"workers": trial.workers, "documents_per_second": trial.documents / trial.seconds} for trial in trials
        ]
        print(json.dumps({"best": best, "tried": tried}, indent=2))
    else:
        print(f"fastest: --workers {best}")
    return 0


def spec_of(args: argparse.Namespace) -> "PreprocessSpec":
    """What the parsed options ask for.

    Raises:
        ConfigError: a value is not among those that are possible.
    """
    if args.dataset_impl != "mmap":
        raise ConfigError(
            f"--dataset-impl {args.dataset_impl}: Megatron's format of today is mmap, and no other is written"
        )
    path = Path(args.tokenizer_model) if args.tokenizer_model else None
    return preprocess.spec_of(args, tokenizer_of(args, path))


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the program; returns its exit code."""
    args = build_parser().parse_args(argv)
    start_no_idle_threads()
    if args.find_optimal_num_workers:
        return exit_code(PROGRAM, lambda: find_workers(args))
    return exit_code(PROGRAM, lambda: carry_out(spec_of(args), as_json=args.json, every_documents=args.log_interval))
