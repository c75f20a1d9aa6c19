"""``mfm inspect``: what a pair is: its header, its metadata, and some of its documents."""

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mindformers_megatron.errors import ConfigError, DataError

if TYPE_CHECKING:
    from mindformers_megatron.format.index import Index
    from mindformers_megatron.format.metadata import Metadata

_SOURCES = 10


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's options."""
    parser.add_argument("pair", metavar="PREFIX", help="prefix, .bin or .idx of a pair, in any layout")
    parser.add_argument(
        "--documents", type=int, default=3, metavar="N", help="show N random ones besides the first (3)"
    )
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="which those are (0)")
    parser.add_argument("--tokenizer", type=Path, metavar="PATH", help="a tokenizer's folder or file, to show text")
    parser.add_argument("--tokens", type=int, default=32, metavar="N", help="of each document, from its beginning (32)")
    parser.add_argument("--json", action="store_true", help="print everything as JSON")


def run(args: argparse.Namespace) -> int:
    """Runs the command."""
    import numpy as np

    from mindformers_megatron.cli.shown_documents import document_lines, shown_documents
    from mindformers_megatron.format.index import read_index
    from mindformers_megatron.format.metadata import check_metadata, read_metadata
    from mindformers_megatron.tokenization.decoding import open_decoder

    if args.documents < 0 or args.tokens < 1:
        raise ConfigError("--documents must be 0 or more, and --tokens 1 or more")
    decode = None if args.tokenizer is None else open_decoder(args.tokenizer)
    try:
        index = read_index(args.pair)
    except DataError:
        _describe_foreign(args.pair)
        raise
    metadata = read_metadata(index.prefix)
    if metadata is not None:
        check_metadata(metadata, index)
    others = max(index.num_documents - 1, 0)
    drawn = np.random.default_rng(args.seed).choice(others, min(args.documents, others), replace=False) + 1
    numbers = [0, *sorted(drawn.tolist())] if index.num_documents else []
    documents = list(shown_documents(index, numbers, decode, args.tokens))
    if args.json:
        print(json.dumps({**_header(index), "metadata": _known(metadata), "shown": documents}, indent=2))
        return 0
    for line in _lines(index, metadata):
        print(line)
    for shown in documents:
        print("\n".join(document_lines(shown)))
    return 0


def _header(index: "Index") -> dict[str, Any]:
    from mindformers_megatron.format.dtypes import dtype_code
    from mindformers_megatron.format.layout import VERSION
    from mindformers_megatron.format.paths import bin_path, docs_path, idx_path

    return {
        "prefix": index.prefix,
        "bin_bytes": bin_path(index.prefix).stat().st_size,
        "idx_bytes": idx_path(index.prefix).stat().st_size,
        "version": VERSION,
        "dtype": index.dtype.name,
        "dtype_code": dtype_code(index.dtype),
        "documents": index.num_documents,
        "sequences": index.num_sequences,
        "tokens": index.num_tokens,
        "provenance": docs_path(index.prefix).exists(),
    }


def _known(metadata: "Metadata | None") -> dict[str, Any] | None:
    return None if metadata is None else json.loads(metadata.to_json())


def _lines(index: "Index", metadata: "Metadata | None") -> Iterator[str]:
    header = _header(index)
    yield f"{index.prefix}: Megatron's .bin/.idx, version {header['version']}"
    sizes = f".bin {header['bin_bytes']:,} bytes, .idx {header['idx_bytes']:,}"
    yield f"  {header['dtype']} (code {header['dtype_code']}), {sizes}"
    yield f"  {index.num_documents:,} documents, {index.num_sequences:,} sequences, {index.num_tokens:,} tokens"
    yield f"  provenance: {'a row for each document' if header['provenance'] else 'none'}"
    if metadata is None:
        yield "  metadata: none; the pair loads all the same"
        return
    tokenizer = metadata.tokenizer
    yield f"  tokenizer: {tokenizer.name} ({tokenizer.kind}), encoded by {tokenizer.engine} {tokenizer.engine_version}"
    yield f"  vocabulary: {metadata.vocab_size} ids, EOD {metadata.eod_id}; seq_length {metadata.seq_length or 'any'}"
    yield f"  options: {json.dumps(dict(metadata.options), ensure_ascii=False)}"
    yield f"  made {metadata.created} by version {metadata.program_version}; fingerprint {metadata.fingerprint[:16]}"
    for source in metadata.sources[:_SOURCES]:
        yield f"  from {source.path}, {source.size:,} bytes"
    if len(metadata.sources) > _SOURCES:
        yield f"  and {len(metadata.sources) - _SOURCES:,} more files"


def _describe_foreign(pair: str) -> None:
    """Says what a pair in another layout is, instead of only that it is none of Megatron's."""
    from mindformers_megatron.format.layouts.mmididx import NAME
    from mindformers_megatron.format.layouts.recognize import open_foreign

    try:
        foreign = open_foreign(pair)
    except DataError:
        return
    if foreign.layout != NAME:
        documents = foreign.lengths.size if foreign.sequences is None else foreign.sequences.size
        raise DataError(
            f"{pair}: {foreign.layout} layout, {documents:,} documents, {int(foreign.lengths.sum()):,} tokens of "
            f"{foreign.dtype.name}; `mfm convert` makes a pair of it"
        )
