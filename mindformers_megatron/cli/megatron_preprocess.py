"""The command line of Megatron's ``tools/preprocess_data.py``, for scripts that have it already.

Options of Megatron-LM from 2024 to 2026, of MindFormers' ``preprocess_indexed_dataset.py``, and other spellings in use.
Those that said how the work was to be split are taken and change nothing: the output is the same for every number of
workers, in the order of the input.
"""

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING

from mindformers_megatron.cli.exit_codes import exit_code
from mindformers_megatron.cli.preprocess import add_run_arguments, carry_out
from mindformers_megatron.errors import ConfigError

if TYPE_CHECKING:
    from mindformers_megatron.tokenization.preprocess import PreprocessSpec
    from mindformers_megatron.tokenization.tokenizer import Kind

PROGRAM = "preprocess_data.py"

_KINDS: "dict[str, Kind]" = {
    "HuggingFaceTokenizer": "HuggingFaceTokenizer",
    "GPT2BPETokenizer": "GPT2BPETokenizer",
    "SentencePieceTokenizer": "SentencePieceTokenizer",
    "GPTSentencePieceTokenizer": "SentencePieceTokenizer",
    "Llama2Tokenizer": "SentencePieceTokenizer",
    "sentencepiece": "SentencePieceTokenizer",
}
_WITHOUT_EFFECT = {
    "--keep-sequential-samples": "the order of the input is always kept",
    "--trust-remote-code": "code that comes with a tokenizer is never run",
    "--legacy-tokenizer": "tokenizers are opened in one way",
    "--tokenizer-hf-use-fast": "tokenizers are always the fast ones",
    "--tokenizer-hf-no-use-fast": "tokenizers are always the fast ones",
}
_NUMBERS_WITHOUT_EFFECT = {
    "--partitions": "the input is cut by itself",
    "--vocab-size": "the tokenizer knows",
    "--vocab-extra-ids": "Megatron's tool sets it to 0",
}


def build_parser() -> argparse.ArgumentParser:
    """Builds the parser."""
    parser = argparse.ArgumentParser(
        prog=PROGRAM, description="Tokenize JSONL into .bin/.idx, byte-identical to Megatron's."
    )
    group = parser.add_argument_group("input data")
    group.add_argument(
        "--input", "--input_path", nargs="+", required=True, metavar="FILE", help="JSONL files or glob patterns"
    )
    group.add_argument("--json-keys", nargs="+", default=["text"], metavar="KEY", help="where the texts are (text)")
    group = parser.add_argument_group("tokenizer")
    group.add_argument("--tokenizer-type", metavar="TYPE", help=f"one of: {', '.join(_KINDS)}")
    group.add_argument(
        "--tokenizer-model", "--tokenizer-dir", "--tokenizer-file", "--tokenizer", dest="tokenizer_model",
        metavar="PATH", help="folder with a tokenizer.json, that file, or a SentencePiece .model",
    )  # fmt: skip
    group.add_argument("--vocab-file", "--vocab", metavar="FILE", help="GPT-2's vocab.json")
    group.add_argument("--merge-file", "--merges-file", metavar="FILE", help="GPT-2's merges.txt")
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
    return parser


def spec_of(args: argparse.Namespace) -> "PreprocessSpec":
    """What the parsed options ask for.

    Raises:
        ConfigError: a value is not among those that are possible.
    """
    from pathlib import Path

    from mindformers_megatron.tokenization.preprocess import PreprocessSpec
    from mindformers_megatron.tokenization.tokenizer import TokenizerSpec

    if args.tokenizer_type is not None and args.tokenizer_type not in _KINDS:
        raise ConfigError(f"--tokenizer-type {args.tokenizer_type}: not one of {', '.join(_KINDS)}")
    if args.dataset_impl != "mmap":
        raise ConfigError(
            f"--dataset-impl {args.dataset_impl}: Megatron's format of today is mmap, and no other is written"
        )

    def path(value: str | None) -> Path | None:
        return Path(value) if value else None

    kind = _KINDS.get(args.tokenizer_type)
    tokenizer = TokenizerSpec(
        path=None if kind == "GPT2BPETokenizer" else path(args.tokenizer_model),
        vocab_file=path(args.vocab_file),
        merge_file=path(args.merge_file),
        kind=kind,
        add_special_tokens=args.add_special_tokens,
        eod_token=args.eod_token,
        eod_id=args.eod_id,
    )
    return PreprocessSpec(
        inputs=args.input,
        output_prefix=args.output_prefix,
        tokenizer=tokenizer,
        json_keys=tuple(args.json_keys),
        append_eod=args.append_eod,
        rejects_allowed=args.rejects_allowed,
        seq_length=args.seq_length,
        workers=args.workers,
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the program; returns its exit code."""
    args = build_parser().parse_args(argv)
    return exit_code(PROGRAM, lambda: carry_out(spec_of(args), as_json=args.json, every_documents=args.log_interval))
