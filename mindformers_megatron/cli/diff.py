"""``mfm diff``: are two pairs the same documents, in the same order, under the same tokenizer."""

import argparse
import json
from collections.abc import Iterator
from typing import TYPE_CHECKING

from mindformers_megatron.cli.scanning import add_workers, scanning

if TYPE_CHECKING:
    from mindformers_megatron.format.diff import DocumentDifference, PairDifference


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's options."""
    parser.add_argument("left", metavar="A", help="prefix, .bin or .idx of a pair")
    parser.add_argument("right", metavar="B", help="the pair to compare it with")
    add_workers(parser)
    parser.add_argument("--json", action="store_true", help="print the comparison as JSON")


def run(args: argparse.Namespace) -> int:
    """Runs the command: 0 where both are the same, 1 where they differ."""
    from mindformers_megatron.format.diff import bytes_compared, compare_pairs

    with scanning("comparing", bytes_compared(args.left, args.right), args.workers) as run_tasks:
        found = compare_pairs(args.left, args.right, run=run_tasks)
    print(json.dumps(found.to_json(), indent=2) if args.json else "\n".join(_lines(found)))
    return 0 if found.same else 1


def _lines(found: "PairDifference") -> Iterator[str]:
    yield f"A: {found.left}: {found.documents[0]:,} documents, {found.tokens[0]:,} tokens"
    yield f"B: {found.right}: {found.documents[1]:,} documents, {found.tokens[1]:,} tokens"
    if found.same_tokenizer is None:
        yield "tokenizer: not known; not both have metadata"
    elif found.same_tokenizer:
        yield "tokenizer: the same"
    else:
        names, differing = found.tokenizers[:2], found.tokenizers[2:]
        yield f"tokenizer: different: {names[0]} and {names[1]}, in {'; '.join(differing)}"
    if found.same_bytes:
        yield "documents: the same, in the same order; the files are the same byte for byte"
        return
    if found.first is None:
        yield "documents: the same, in the same order"
    else:
        only = [count - found.common for count in found.documents]
        yield f"documents: {found.common:,} in both, {only[0]:,} only in A, {only[1]:,} only in B"
        yield f"order: those in both come in {'the same' if found.same_order else 'another'} order"
        yield f"places at which the documents differ: {found.differing:,}; the first is {_first(found.first)}"
    if not found.same_sequences:
        yield "sequences: documents are divided into sequences in different ways"


def _first(first: "DocumentDifference") -> str:
    if first.token is None:
        return f"document {first.document:,}, which {'A' if first.left_tokens is None else 'B'} does not have"
    sides = []
    for name, value, size, source in (
        ("A", first.left, first.left_tokens, first.left_source),
        ("B", first.right, first.right_tokens, first.right_source),
    ):
        what = f"has ended after {size:,} tokens" if value is None else f"has {value:,}"
        sides.append(f"{name} {what}" + (f" ({source})" if source else ""))
    return f"document {first.document:,}, token {first.token:,}: {sides[0]}, {sides[1]}"
