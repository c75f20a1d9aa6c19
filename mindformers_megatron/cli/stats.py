"""``mfm stats``: a pair in numbers."""

import argparse
import json
from collections.abc import Iterator
from typing import TYPE_CHECKING

from mindformers_megatron.cli.pair_arguments import named_pairs

if TYPE_CHECKING:
    from mindformers_megatron.format.stats import PairStats

_BAR = 40
_SOURCES = 30


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's options."""
    parser.add_argument(
        "pairs", nargs="+", metavar="PREFIX", help="prefix, .bin or .idx of a pair, or a folder of pairs"
    )
    parser.add_argument(
        "--eod-id", type=int, metavar="ID", help="look for it at the ends of documents (the metadata's)"
    )
    parser.add_argument("--json", action="store_true", help="print the numbers as JSON")


def run(args: argparse.Namespace) -> int:
    """Runs the command."""
    from mindformers_megatron.format.stats import pair_stats

    stats = [pair_stats(pair, eod_id=args.eod_id) for pair in named_pairs(args.pairs)]
    if args.json:
        print(json.dumps([one.to_json() for one in stats], indent=2))
    else:
        print("\n\n".join("\n".join(_lines(one)) for one in stats))
    return 0


def _lines(stats: "PairStats") -> Iterator[str]:
    size = (stats.bin_bytes + stats.idx_bytes) / 1e6
    yield f"{stats.prefix}: {stats.dtype}, {size:,.1f} MB"
    yield f"  documents  {stats.documents:>15,}" + (f"  ({stats.empty:,} without tokens)" if stats.empty else "")
    yield f"  sequences  {stats.sequences:>15,}"
    yield f"  tokens     {stats.tokens:>15,}"
    if stats.ending_in_eod is not None:
        share = stats.ending_in_eod / max(stats.filled, 1)
        yield f"  end in EOD {stats.ending_in_eod:>15,}  ({share:.2%} of those with tokens; id {stats.eod_id})"
    yield (
        f"  length: mean {stats.mean:,.1f}, median {stats.median:,}, 90 % up to {stats.percentile_90:,}, 99 % up to "
        f"{stats.percentile_99:,}; {stats.shortest:,} to {stats.longest:,}"
    )
    yield from _histogram(stats)
    if stats.sources is not None:
        yield from _sources(stats)


def _histogram(stats: "PairStats") -> Iterator[str]:
    most = max((bucket.documents for bucket in stats.histogram), default=0)
    width = len(f"{stats.longest:,}") + 1
    yield f"  {'tokens':>{2 * width + 1}}  {'documents':>13}  of all tokens"
    for bucket in stats.histogram:
        bar = "█" * round(_BAR * bucket.documents / most) or ("▏" if bucket.documents else "")
        span = f"{bucket.low:>{width},}–{min(bucket.high, stats.longest):<{width},}"
        yield f"  {span}  {bucket.documents:>13,}  {bucket.tokens / max(stats.tokens, 1):>13.1%}  {bar}"


def _sources(stats: "PairStats") -> Iterator[str]:
    sources = stats.sources or ()
    width = max([len("source"), *(len(share.source[:40]) for share in sources[:_SOURCES])])
    yield f"  {'source':<{width}}  {'documents':>13}  {'tokens':>15}  of all tokens"
    for share in sources[:_SOURCES]:
        part = share.tokens / max(stats.tokens, 1)
        yield f"  {share.source[:40]:<{width}}  {share.documents:>13,}  {share.tokens:>15,}  {part:>13.1%}"
    if len(sources) > _SOURCES:
        yield f"  and {len(sources) - _SOURCES:,} more; --json lists them"
