"""``mfm preprocess``: JSONL or Parquet → ``.bin/.idx``."""

import argparse
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

from mindformers_megatron.errors import ConfigError

if TYPE_CHECKING:
    from mindformers_megatron.tokenization.preprocess import PreprocessReport, PreprocessSpec
    from mindformers_megatron.tokenization.tokenizer_files import Kind, TokenizerSpec

# Megatron's names of old and new, and what each is here.
TOKENIZER_TYPES: "dict[str, Kind]" = {
    "HuggingFaceTokenizer": "HuggingFaceTokenizer",
    "GPT2BPETokenizer": "GPT2BPETokenizer",
    "SentencePieceTokenizer": "SentencePieceTokenizer",
    "GPTSentencePieceTokenizer": "SentencePieceTokenizer",
    "Llama2Tokenizer": "SentencePieceTokenizer",
    "sentencepiece": "SentencePieceTokenizer",
    "TikTokenizer": "TikTokenizer",
    "BertWordPieceLowerCase": "BertWordPieceLowerCase",
    "BertWordPieceCase": "BertWordPieceCase",
    "NullTokenizer": "NullTokenizer",
}
INPUT_HELP = (
    "files of JSONL (plain, .gz, .zst, .xz or .bz2) or Parquet, folders of them, patterns in quotes, or - for standard "
    "input; NAME=INPUT counts its documents as source NAME"
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's options."""
    group = parser.add_argument_group("input")
    group.add_argument("--input", nargs="+", required=True, metavar="INPUT", help=INPUT_HELP)
    group.add_argument(
        "--json-keys", nargs="+", default=["text"], metavar="KEY", help="where the texts are; a pair for each (text)"
    )
    group = parser.add_argument_group("tokenizer")
    group.add_argument(
        "--tokenizer",
        type=Path,
        metavar="PATH",
        help="folder with a tokenizer.json, that file, a SentencePiece .model, or a .tiktoken file",
    )
    group.add_argument(
        "--tokenizer-type", metavar="TYPE", help="what it must be, by Megatron's names (what the files are)"
    )
    group.add_argument(
        "--vocab-file", type=Path, metavar="FILE", help="GPT-2's vocab.json or BERT's vocab.txt, instead of --tokenizer"
    )
    group.add_argument("--merge-file", type=Path, metavar="FILE", help="GPT-2's merges.txt, with --vocab-file")
    group.add_argument(
        "--add-special-tokens",
        action="store_true",
        help="add to each text what the tokenizer adds around one, such as <s>",
    )
    group.add_argument("--append-eod", action="store_true", help="end each document with the end-of-document token")
    group.add_argument("--eod-token", metavar="TOKEN", help="that token (the one the tokenizer's files name)")
    group.add_argument("--eod-id", type=int, metavar="ID", help="the same by its id")
    add_text_arguments(group)
    add_sentence_arguments(parser.add_argument_group("sentences"))
    group = parser.add_argument_group("output")
    group.add_argument(
        "--output-prefix", required=True, metavar="PREFIX", help="writes PREFIX_KEY_document.bin, .idx, ..."
    )
    group.add_argument("--seq-length", type=int, metavar="N", help="noted in the metadata; the pair fits every length")
    add_run_arguments(parser.add_argument_group("run"))


def add_text_arguments(group: "argparse._ArgumentGroup") -> None:
    """The options about what becomes of texts which Megatron's tool does not have."""
    group.add_argument(
        "--special-tokens-in-text",
        choices=("encode", "split", "error"),
        default="encode",
        help="the name of a special token within a text becomes its id, as with Megatron; or text like any other; or "
        "an error of the record (encode)",
    )
    group.add_argument(
        "--tiktoken-pattern", metavar="NAME", help="how a tiktoken file splits words, which it does not say itself"
    )
    group.add_argument(
        "--tiktoken-num-special-tokens", type=int, default=1000, metavar="N",
        help="ids that Megatron's tiktoken vocabularies in JSON leave for special tokens (1000)",
    )  # fmt: skip
    group.add_argument("--tiktoken-special-tokens", nargs="+", metavar="TOKEN", help="their names (Megatron's)")
    group.add_argument("--vocab-size", type=int, metavar="N", help="of a NullTokenizer, or of a tiktoken vocabulary")


def add_sentence_arguments(group: "argparse._ArgumentGroup") -> None:
    """The options about sentences."""
    group.add_argument(
        "--split-sentences", action="store_true", help="make each sentence a sequence of its document, in the same run"
    )
    group.add_argument("--keep-newlines", action="store_true", help="keep the white space between sentences")
    group.add_argument("--lang", default="english", metavar="LANGUAGE", help="of the texts (english)")
    group.add_argument(
        "--punkt", type=Path, metavar="FOLDER", help="NLTK's data with punkt_tab, to split as Megatron does"
    )


def add_run_arguments(group: "argparse._ArgumentGroup") -> None:
    """The options about how the work is done, which do not change the pairs."""
    group.add_argument("--workers", type=int, metavar="N", help="how many work at once (one per core)")
    group.add_argument(
        "--engine",
        choices=("auto", "hf", "gigatoken", "sentencepiece", "tiktoken"),
        default="auto",
        help="what encodes; auto takes the fastest that is found to give the same ids (auto)",
    )
    group.add_argument(
        "--on-mismatch",
        choices=("stop", "hf"),
        default="stop",
        help="when a fast engine gives other ids: stop, or begin again with the library that defines them (stop)",
    )
    group.add_argument(
        "--on-error",
        type=_rejects_allowed,
        default=0,
        dest="rejects_allowed",
        metavar="fail|skip|N",
        help="at a line that is no record: fail, skip it and list it in PREFIX.rejected.jsonl, or skip N (fail)",
    )
    group.add_argument(
        "--no-md5", action="store_false", dest="md5", help="write no PREFIX.md5; SHA-256 is in the metadata anyhow"
    )
    group.add_argument("--json", action="store_true", help="print the summary as JSON")


def tokenizer_of(args: argparse.Namespace, path: Path | None) -> "TokenizerSpec":
    """The tokenizer that options ask for.

    Raises:
        ConfigError: its type is none that there is.
    """
    from mindformers_megatron.tokenization.tokenizer_files import TokenizerSpec

    kind = None if args.tokenizer_type is None else TOKENIZER_TYPES.get(args.tokenizer_type)
    if args.tokenizer_type is not None and kind is None:
        raise ConfigError(f"--tokenizer-type {args.tokenizer_type}: not one of {', '.join(TOKENIZER_TYPES)}")
    special_tokens = args.tiktoken_special_tokens
    return TokenizerSpec(
        path=None if kind == "GPT2BPETokenizer" and args.vocab_file else path,
        vocab_file=args.vocab_file,
        merge_file=args.merge_file,
        kind=kind,
        add_special_tokens=args.add_special_tokens,
        special_tokens_in_text=args.special_tokens_in_text,
        eod_token=args.eod_token,
        eod_id=args.eod_id,
        vocab_size=args.vocab_size,
        tiktoken_pattern=args.tiktoken_pattern,
        tiktoken_num_special_tokens=args.tiktoken_num_special_tokens,
        tiktoken_special_tokens=None if special_tokens is None else tuple(special_tokens),
    )


def spec_of(args: argparse.Namespace, tokenizer: "TokenizerSpec") -> "PreprocessSpec":
    """The run that options ask for."""
    from mindformers_megatron.tokenization.preprocess import PreprocessSpec
    from mindformers_megatron.tokenization.sentences import SentenceSpec

    sentences = SentenceSpec(language=args.lang, keep_newlines=args.keep_newlines, punkt=args.punkt)
    return PreprocessSpec(
        inputs=args.input,
        output_prefix=args.output_prefix,
        tokenizer=tokenizer,
        json_keys=tuple(args.json_keys),
        append_eod=args.append_eod,
        rejects_allowed=args.rejects_allowed,
        sentences=sentences if args.split_sentences else None,
        engine=args.engine,
        on_mismatch=args.on_mismatch,
        seq_length=args.seq_length,
        md5=args.md5,
        workers=args.workers,
    )


def start_no_idle_threads() -> None:
    """Keeps NumPy, once it is imported, from starting threads for matrices, here and in processes begun from here.

    Nothing here multiplies any; and a short run spends a tenth of its time on starting them.
    """
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


def run(args: argparse.Namespace) -> int:
    """Runs the command."""
    start_no_idle_threads()
    return carry_out(spec_of(args, tokenizer_of(args, args.tokenizer)), as_json=args.json)


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
    lines.append(f"encoded by {report.engine} {report.engine_version}" + _verdict(report))
    if report.reused_parts:
        lines.append(f"{report.reused_parts:,} parts were taken over from a run that had ended early")
    if counts.special_tokens:
        lines.append(
            f"warning: {counts.special_tokens:,} special tokens stood in texts by name and became their ids; "
            "--special-tokens-in-text split makes them text"
        )
    if counts.blanks:
        lines.append(f"{counts.blanks:,} blank lines skipped")
    if counts.rejects:
        lines.append(f"{counts.rejects:,} bad lines skipped, listed in {report.rejects_path}")
    return "\n".join(lines)


def _verdict(report: "PreprocessReport") -> str:
    return f": {report.engine_verdict}" if report.engine_verdict else ""


def _rejects_allowed(text: str) -> int | None:
    if text in ("fail", "skip"):
        return 0 if text == "fail" else None
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is none of: fail, skip, a number")
    return int(text)
