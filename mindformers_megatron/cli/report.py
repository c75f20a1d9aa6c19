"""``mfm report``: what there is to see about a corpus or a run, in one HTML file."""

import argparse
import sys
from pathlib import Path

from mindformers_megatron.cli.report_target import add_target_arguments, contents_of, open_target


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of ``mfm report``."""
    add_target_arguments(parser)
    parser.add_argument("-o", "--output", type=Path, default=Path("report.html"), help="default: report.html")
    parser.add_argument("--png", type=Path, metavar="FOLDER", help="draw mix.png and lengths.png there too")


def run(args: argparse.Namespace) -> int:
    """Writes the page, and pictures if they are asked for."""
    from mindformers_megatron.format.atomic import write_atomically
    from mindformers_megatron.report.extra import check_extra

    check_extra("jinja2", "writing a report")
    if args.png is not None:
        check_extra("matplotlib", "drawing pictures")
    from mindformers_megatron.report.html.page import render_page

    contents = contents_of(open_target(args), samples=args.samples, documents=args.documents)
    page = render_page(contents)
    write_atomically(args.output, page)
    written = [args.output]
    if args.png is not None:
        from mindformers_megatron.report.figures import draw_figures

        args.png.mkdir(parents=True, exist_ok=True)
        written += draw_figures(contents.mix, contents.pairs, args.png)
    for path in written:
        print(path)
    print(f"{len(page) / 1e6:.1f} MB; open it in a browser, it needs no network", file=sys.stderr)
    return 0
