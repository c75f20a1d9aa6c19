"""``mfm head``: the first documents of a pair."""

import argparse
import json
from pathlib import Path

from mindformers_megatron.errors import ConfigError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's options."""
    parser.add_argument("pair", metavar="PREFIX", help="prefix, .bin or .idx of a pair")
    parser.add_argument("-n", "--documents", type=int, default=5, metavar="N", help="how many (5)")
    parser.add_argument("--from", type=int, default=0, dest="first", metavar="D", help="the first of them (0)")
    parser.add_argument("--tokenizer", type=Path, metavar="PATH", help="a tokenizer's folder or file, to show text")
    parser.add_argument("--tokens", type=int, default=64, metavar="N", help="of each document, from its beginning (64)")
    parser.add_argument("--json", action="store_true", help="for programs: a JSON object a line")


def run(args: argparse.Namespace) -> int:
    """Runs the command."""
    from mindformers_megatron.cli.shown_documents import document_lines, shown_documents
    from mindformers_megatron.format.index import read_index
    from mindformers_megatron.tokenization.decoding import open_decoder

    index = read_index(args.pair)
    if not 0 <= args.first < max(index.num_documents, 1) or min(args.documents, args.tokens) < 1:
        raise ConfigError(f"{index.prefix}: has documents 0 to {index.num_documents - 1:,}; show 1 or more of them")
    decode = None if args.tokenizer is None else open_decoder(args.tokenizer)
    last = min(args.first + args.documents, index.num_documents)
    for shown in shown_documents(index, range(args.first, last), decode, args.tokens):
        print(json.dumps(shown, ensure_ascii=False) if args.json else "\n".join(document_lines(shown)))
    return 0
