"""``mfm train-tokenizer``: text → a tokenizer. The options of ``spm_train`` are taken in its spelling, too."""

import argparse
import csv
import json
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mindformers_megatron.cli.text_inputs import Texts, add_text_arguments
from mindformers_megatron.errors import ConfigError

if TYPE_CHECKING:
    from mindformers_megatron.tokenization.training.byte_bpe import ByteBpeOptions
    from mindformers_megatron.tokenization.training.sentencepiece_trainer import SentencePieceOptions
    from mindformers_megatron.tokenization.training.special_tokens import Role
    from mindformers_megatron.tokenization.training.trained import TrainedTokenizer

BYTE_BPE = "byte-bpe"
_END_OF_TEXT = "<|endoftext|>"
_USUAL_TOKENS: "dict[Role, str]" = {"pad": "<pad>", "unk": "<unk>", "bos": "<s>"}
_OF_BYTE_BPE = ("pre_tokenizer", "digits", "normalization", "min_frequency", "max_token_bytes", "limit_alphabet")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's options."""
    from mindformers_megatron.tokenization.training.byte_bpe import NORMALIZATIONS
    from mindformers_megatron.tokenization.training.sentencepiece_trainer import TRAINER_OPTIONS
    from mindformers_megatron.tokenization.training.special_tokens import ROLES
    from mindformers_megatron.tokenization.training.word_patterns import DIGITS, STYLES

    add_text_arguments(parser, unit="paragraph")
    # None: by the type of the model.
    parser.set_defaults(document=None)
    group = parser.add_argument_group("output")
    group.add_argument("--output", type=Path, metavar="FOLDER", help="a new folder that AutoTokenizer loads")
    _add(group, "model-prefix", metavar="PREFIX", help="SentencePiece's PREFIX.model and PREFIX.vocab")
    group.add_argument("--json", action="store_true", help="print the summary as JSON")
    group = parser.add_argument_group("vocabulary")
    _add(
        group, "model-type", default=BYTE_BPE, type=_model_type, metavar="TYPE",
        help="byte-bpe (Hugging Face's byte-level BPE), or bpe or unigram (SentencePiece) (byte-bpe)",
    )  # fmt: skip
    _add(group, "vocab-size", type=int, required=True, metavar="N", help="ids, special tokens included")
    for role in ROLES:
        _add(group, f"{role}-token", f"{role}-piece", dest=f"{role}_token", metavar="TEXT", help=_ABOUT_TOKENS[role])
        _add(group, f"{role}-id", type=int, metavar="ID", help=argparse.SUPPRESS)
    _add(
        group, "user-defined-symbols", type=_symbols, default=(), metavar="A,B",
        help="one token each, wherever they stand in a text",
    )  # fmt: skip
    _add(group, "hard-vocab-limit", type=_truth, nargs="?", const=True, metavar="true|false",
         help="fail if the texts hold too little for so many ids (true)")  # fmt: skip
    group = parser.add_argument_group("byte-bpe")
    _add(group, "pre-tokenizer", choices=STYLES, help="how text is cut into words (qwen)")
    _add(group, "digits", choices=DIGITS, help="digits a token may have (as the style: gpt2 any, qwen 1, llama3 3)")
    _add(group, "normalization", choices=NORMALIZATIONS, help="Unicode form to bring texts into (none)")
    _add(group, "min-frequency", type=int, metavar="N", help="merge pairs that occur so often (2)")
    _add(group, "max-token-bytes", type=int, metavar="N", help="longest token (any)")
    _add(group, "limit-alphabet", type=int, metavar="N", help="keep the N most frequent bytes only (all 256)")
    group = parser.add_argument_group("bpe and unigram", "Options of spm_train, with its defaults.")
    _add(group, "control-symbols", type=_symbols, metavar="A,B", help="pieces that no text has")
    for name, kind in TRAINER_OPTIONS.items():
        if name == "hard_vocab_limit":
            continue
        if kind is bool:
            _add(group, name, type=_truth, nargs="?", const=True, metavar="true|false")
        else:
            _add(group, name, type=kind, metavar={int: "N", float: "X", str: "TEXT"}[kind])


_ABOUT_TOKENS = {
    "pad": "padding; with --pad-id ID (byte-bpe: none; else <pad>, -1: none)",
    "unk": "what has no id; with --unk-id ID (byte-bpe: none; else <unk>, 0)",
    "bos": "begins a text; with --bos-id ID (byte-bpe: none; else <s>, 1)",
    "eos": "ends a text; with --eos-id ID (byte-bpe: the eod token; else </s>, 2)",
    "eod": f"ends a document; with --eod-id ID (byte-bpe: {_END_OF_TEXT}; else the eos token)",
}


def run(args: argparse.Namespace) -> int:
    """Runs the command."""
    from mindformers_megatron.tokenization.training.folder import Destination
    from mindformers_megatron.tokenization.training.record import training_record

    byte_level = args.model_type == BYTE_BPE
    args.document = args.document or ("paragraph" if byte_level else "line")
    options = _byte_bpe_options(args) if byte_level else _sentencepiece_options(args)
    destination = Destination(args.output, args.model_prefix)
    destination.check()
    if byte_level and args.model_prefix is not None:
        raise ConfigError("--model-prefix is for --model-type bpe and unigram; pass --output FOLDER")
    texts = Texts(args, "reading")
    with _interruptible():
        trained = _train(texts, options)
    record = training_record(trained, options, inputs=texts.sources(), reading=texts.reading, seen=texts.seen)
    destination.write(trained, record)
    for warning in trained.warnings:
        print(f"mfm train-tokenizer: warning: {warning}", file=sys.stderr)
    print(json.dumps(record, indent=2, ensure_ascii=False) if args.json else _summary(args, trained, texts.seen))
    return 0


def _train(texts: Texts, options: "ByteBpeOptions | SentencePieceOptions") -> "TrainedTokenizer":
    from mindformers_megatron.tokenization.training.byte_bpe import ByteBpeOptions, train_byte_bpe
    from mindformers_megatron.tokenization.training.sentencepiece_trainer import train_sentencepiece

    if isinstance(options, ByteBpeOptions):
        return train_byte_bpe(texts, options)
    return train_sentencepiece(texts, options)


def _byte_bpe_options(args: argparse.Namespace) -> "ByteBpeOptions":
    from mindformers_megatron.tokenization.training.byte_bpe import ByteBpeOptions
    from mindformers_megatron.tokenization.training.sentencepiece_trainer import TRAINER_OPTIONS
    from mindformers_megatron.tokenization.training.special_tokens import SpecialTokens

    _refuse(args, [*(name for name in TRAINER_OPTIONS if name != "hard_vocab_limit"), "control_symbols"])
    tokens, ids = _roles(args)
    tokens.setdefault("eod", tokens.get("eos", _END_OF_TEXT))
    tokens.setdefault("eos", tokens["eod"])
    for role, usual in _USUAL_TOKENS.items():
        if ids.get(role, 0) < 0:  # SentencePiece's way to say that there is none
            del ids[role]
        elif role in ids:
            tokens.setdefault(role, usual)
    given = {name: getattr(args, name) for name in (*_OF_BYTE_BPE, "hard_vocab_limit")}
    special = SpecialTokens(tokens, ids, args.user_defined_symbols)
    return ByteBpeOptions(
        vocab_size=args.vocab_size,
        special=special,
        **{name: value for name, value in given.items() if value is not None},
    )


def _sentencepiece_options(args: argparse.Namespace) -> "SentencePieceOptions":
    from mindformers_megatron.tokenization.training.sentencepiece_trainer import (
        TRAINER_OPTIONS,
        SentencePieceOptions,
        special_pieces,
    )

    _refuse(args, _OF_BYTE_BPE)
    tokens, ids = _roles(args)
    special = special_pieces(tokens, ids, args.user_defined_symbols)
    if "eod" not in special.tokens and "eos" in special.tokens:
        special = special_pieces({**tokens, "eod": special.tokens["eos"]}, ids, args.user_defined_symbols)
    given = {name: getattr(args, name) for name in TRAINER_OPTIONS}
    return SentencePieceOptions(
        vocab_size=args.vocab_size,
        special=special,
        model_type=args.model_type,
        control_symbols=args.control_symbols or (),
        trainer={name: value for name, value in given.items() if value is not None},
    )


def _roles(args: argparse.Namespace) -> "tuple[dict[Role, str], dict[Role, int]]":
    from mindformers_megatron.tokenization.training.special_tokens import ROLES

    tokens = {role: value for role in ROLES if (value := getattr(args, f"{role}_token")) is not None}
    ids = {role: value for role in ROLES if (value := getattr(args, f"{role}_id")) is not None}
    return tokens, ids


def _refuse(args: argparse.Namespace, names: "list[str] | tuple[str, ...]") -> None:
    """An option of the other kind of model would have no effect."""
    for name in names:
        if getattr(args, name) is not None:
            raise ConfigError(f"--{name.replace('_', '-')} has no meaning for --model-type {args.model_type}")


@contextmanager
def _interruptible() -> Iterator[None]:
    """Lets Ctrl-C end the process at once: the libraries would not look at it for minutes. Nothing is written yet."""
    before = signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _summary(args: argparse.Namespace, trained: "TrainedTokenizer", seen: dict[str, int]) -> str:
    places = [str(args.output)] if args.output is not None else []
    places += [f"{args.model_prefix}.model", f"{args.model_prefix}.vocab"] if args.model_prefix is not None else []
    special = ", ".join(f"{role} {token!r} = {trained.id_of(token)}" for role, token in trained.roles.items())
    lines = [
        f"{', '.join(places)}: {trained.vocab_size:,} ids ({special})",
        f"trained on {seen['texts']:,} texts, {seen['bytes'] / 1e6:,.1f} MB",
    ]
    if seen["rejected"]:
        lines.append(f"{seen['rejected']:,} records that cannot be read were skipped")
    return "\n".join(lines)


def _add(group: "argparse._ArgumentGroup", *names: str, **options: Any) -> None:
    """Adds an option under the spelling of this package and under that of ``spm_train``."""
    spellings = dict.fromkeys(f"--{name.replace(*change)}" for name in names for change in (("_", "-"), ("-", "_")))
    group.add_argument(*spellings, **options)


def _model_type(text: str) -> str:
    name = text.replace("_", "-")
    if name not in (BYTE_BPE, "bpe", "unigram"):
        raise argparse.ArgumentTypeError(f"{text!r} is none of: {BYTE_BPE}, bpe, unigram")
    return name


def _symbols(text: str) -> tuple[str, ...]:
    return tuple(next(csv.reader([text]), []))


def _truth(text: str) -> bool:
    if text.lower() not in ("true", "false", "1", "0"):
        raise argparse.ArgumentTypeError(f"{text!r} is none of: true, false")
    return text.lower() in ("true", "1")
