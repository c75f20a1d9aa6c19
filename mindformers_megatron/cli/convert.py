"""``mfm convert``: from other layouts to a pair, and from a pair to other layouts."""

import argparse
import json
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mindformers_megatron.cli.written_pair import counts_of, summary_of
from mindformers_megatron.errors import ConfigError

if TYPE_CHECKING:
    from mindformers_megatron.format.convert import ConvertedPair

# Named here again, so that --help needs none of the modules.
_FROM = ("megatron", "fairseq", "tntidx", "mspt", "pickle", "npz", "json")
_TO = ("megatron", "parquet", "arrow", "mindrecord", "mspt", "pickle", "npz", "json")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's options."""
    parser.add_argument(
        "input",
        type=Path,
        help="a pair in any layout (its prefix or a file of it), or a Parquet or Arrow file or folder",
    )
    parser.add_argument(
        "-o", "--output-prefix", required=True, metavar="PREFIX", help="writes PREFIX.bin, PREFIX.idx, ..."
    )
    parser.add_argument("--from", dest="layout", choices=_FROM, help="layout of the input (as its first bytes show)")
    parser.add_argument("--to", choices=_TO, default="megatron", help="layout of the output (megatron)")
    parser.add_argument("--column", default="input_ids", metavar="NAME", help="column with the tokens (input_ids)")
    parser.add_argument(
        "--bin-dtype",
        metavar="TYPE",
        help="type of the tokens in the input's .bin, such as uint16 or '>u2' (as it says)",
    )
    parser.add_argument("--dtype", metavar="TYPE", help="type of the tokens to write (as it was, or by the vocabulary)")
    parser.add_argument("--vocab-size", type=int, metavar="N", help="ids must be below it")
    parser.add_argument(
        "--tokenizer", type=Path, metavar="PATH", help="what made the tokens: noted in the metadata, and ids checked"
    )
    parser.add_argument("--seq-length", type=int, metavar="N", help="noted; rows of MindRecord have N + 1 tokens")
    parser.add_argument("--json", action="store_true", help="print the summary as JSON")


def run(args: argparse.Namespace) -> int:
    """Runs the command."""
    for name in ("vocab_size", "seq_length"):
        if (value := getattr(args, name)) is not None and value < 1:
            raise ConfigError(f"--{name.replace('_', '-')} is {value}; give 1 or more")
    Path(args.output_prefix).parent.mkdir(parents=True, exist_ok=True)
    summary, text = _to_pair(args) if args.to == "megatron" else _from_pair(args)
    print(json.dumps(summary, indent=2) if args.json else text)
    return 0


def _to_pair(args: argparse.Namespace) -> tuple[dict[str, Any], str]:
    from mindformers_megatron.cli.copy_progress import CopyProgress
    from mindformers_megatron.format.convert import Conversion, convert, source_bytes
    from mindformers_megatron.format.dtypes import DTYPE_CODES, dtype_code
    from mindformers_megatron.format.layouts.foreign import bin_dtype
    from mindformers_megatron.format.metadata import write_metadata
    from mindformers_megatron.tokenization.pair_metadata import converted_metadata
    from mindformers_megatron.tokenization.tokenizer import TokenizerSpec, open_tokenizer

    tokenizer = None if args.tokenizer is None else open_tokenizer(TokenizerSpec(path=args.tokenizer))
    asked = Conversion(
        source=args.input,
        prefix=args.output_prefix,
        layout=args.layout,
        column=args.column,
        read_as=None if args.bin_dtype is None else bin_dtype(args.bin_dtype),
        dtype=None if args.dtype is None else DTYPE_CODES[dtype_code(args.dtype)],
        vocab_size=args.vocab_size or (None if tokenizer is None else tokenizer.largest_id + 1),
    )
    with CopyProgress("converting", source_bytes(args.input)) as progress:
        converted = convert(asked, progress)
    if tokenizer is not None and not converted.has_metadata:
        write_metadata(converted.prefix, converted_metadata(converted, tokenizer, args.seq_length))
    return _summary(converted), _text(converted)


def _from_pair(args: argparse.Namespace) -> tuple[dict[str, Any], str]:
    from mindformers_megatron.cli.copy_progress import CopyProgress
    from mindformers_megatron.format.convert import source_bytes

    given = [f"--{name}" for name in ("from", "bin-dtype", "dtype", "tokenizer") if _given(args, name)]
    if given:
        raise ConfigError(f"{given[0]} is for making a pair; --to {args.to} writes one as it is")
    with CopyProgress("converting", source_bytes(args.input)) as progress:
        files = [str(file) for file in _export(args, progress)]
    return {"files": files, "layout": args.to}, "\n".join(files)


def _given(args: argparse.Namespace, name: str) -> bool:
    return getattr(args, {"from": "layout"}.get(name, name.replace("-", "_"))) is not None


def _export(args: argparse.Namespace, progress: Callable[[int], None]) -> list[Path]:
    from mindformers_megatron.format.export import TABLES, export_layout, export_table
    from mindformers_megatron.format.paths import prefix_of

    if args.to == "mindrecord":
        try:
            # MindFormers, which comes with the loader, makes a folder for its logs where it is imported.
            with tempfile.TemporaryDirectory() as logs:
                os.environ.setdefault("LOCAL_DEFAULT_PATH", logs)
                from mindformers_megatron.loader.mindrecord import write_mindrecord
        except ModuleNotFoundError as error:
            raise ConfigError(f"MindRecord is written by mindspore, and {error.name} is not installed") from None
        path = Path(f"{prefix_of(args.output_prefix)}.mindrecord")
        write_mindrecord(args.input, path, seq_length=args.seq_length, column=args.column, on_bytes=progress)
        return [path]
    if args.to in TABLES:
        return [export_table(args.input, args.output_prefix, args.to, column=args.column, on_bytes=progress)]
    return export_layout(args.input, args.output_prefix, args.to, seq_length=args.seq_length, on_bytes=progress)


def _summary(converted: "ConvertedPair") -> dict[str, Any]:
    return {
        "prefix": converted.prefix,
        "from": converted.layout,
        "dtype": converted.dtype,
        **summary_of(converted.written),
        "largest_id": converted.largest_id,
        "common_end": converted.common_end,
    }


def _text(converted: "ConvertedPair") -> str:
    end = "do not end alike" if converted.common_end is None else f"end with id {converted.common_end:,}"
    return (
        f"{converted.prefix}.bin/.idx: {counts_of(converted.written)} "
        f"({converted.dtype}) from {converted.layout}; ids up to {converted.largest_id:,}; documents {end}"
    )
