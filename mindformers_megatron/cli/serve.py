"""``mfm serve``: the report in a browser on this machine, with look-ups."""

import argparse
import sys
from functools import partial
from pathlib import Path

from mindformers_megatron.cli.report_target import add_target_arguments, contents_of, open_target

PORT = 8642


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of ``mfm serve``."""
    add_target_arguments(parser)
    parser.add_argument("--port", type=int, default=PORT, help=f"on 127.0.0.1 (default: {PORT}; 0: a free one)")
    parser.add_argument(
        "--sources",
        type=Path,
        metavar="FOLDER",
        help="show raw records of files in here (default: the target's folder)",
    )


def run(args: argparse.Namespace) -> int:
    """Serves until it is interrupted."""
    from mindformers_megatron.report.extra import check_extra

    check_extra("jinja2", "serving a report")
    from mindformers_megatron.report.html.page import content_policy, render_page
    from mindformers_megatron.report.lookups import look_up_source, look_up_trace
    from mindformers_megatron.report.server import Lookup, ReportServer

    target = open_target(args)
    page = render_page(contents_of(target, samples=args.samples, documents=args.documents, live=True))
    within = args.sources or (args.target if args.target.is_dir() else args.target.resolve().parent)
    lookups: dict[str, Lookup] = {"source": partial(look_up_source, target.pairs, target.viewer.roots, within)}
    if target.run is not None:
        found = target.run
        # Documents are looked for up to the last state that was there at the start; in the plan, if there was none.
        until = found.steps.place_of((found.reached or found.planned) - 1).step
        lookups["trace"] = partial(look_up_trace, found.plan, found.steps, until, target.viewer)
    with ReportServer(args.port, page, content_policy(live=True), lookups) as server:
        print(server.url, flush=True)
        print("only this machine can open it; end it with Ctrl-C", file=sys.stderr)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            return 0
    return 0
