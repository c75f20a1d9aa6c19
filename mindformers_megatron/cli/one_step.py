"""Commands that do some steps of a recipe with files, and write what is kept to one file."""

import argparse
import contextlib
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any


def add_common_arguments(parser: argparse.ArgumentParser) -> None:
    """The options that such commands share."""
    from mindformers_megatron.cli.prepare import add_engine_arguments

    parser.add_argument("input", nargs="+", help="files, folders, or patterns in quotes: JSONL, Parquet, text, HTML")
    parser.add_argument(
        "--output", required=True, type=Path, metavar="FILE", help=".jsonl, .jsonl.gz, .jsonl.zst, .parquet"
    )
    group = parser.add_argument_group("input")
    group.add_argument("--text-key", default="text", metavar="KEY", help="key or column of the text (text)")
    group.add_argument("--id-key", default="id", metavar="KEY", help="key or column of the id (id)")
    group.add_argument("--format", choices=("jsonl", "parquet", "text", "html"), help="if names do not tell it")
    group.add_argument("--encoding", help="if it is not to be found out")
    group.add_argument(
        "--on-error", default="fail", metavar="fail|skip|N", help="at a record that cannot be read (fail)"
    )
    where = parser.add_argument_group("where")
    add_engine_arguments(where)
    where.add_argument(
        "--memory-gb", type=float, default=1.0, metavar="GB", help="for what looks at all documents together (1)"
    )
    parser.add_argument("--json", action="store_true", help="print the statistics as JSON")


def run_steps(args: argparse.Namespace, steps: Sequence[Any], evaluation: Mapping[str, Any] | None = None) -> int:
    """Does steps, and writes beside the output what they did; returns the exit code.

    Args:
        args: of ``add_common_arguments``.
        steps: as in a recipe.
        evaluation: likewise.
    """
    import json

    from mindformers_megatron.cli.stage_progress import StageProgress
    from mindformers_megatron.corpus.prepare.additions import claim_indexes
    from mindformers_megatron.corpus.prepare.export import check_export, export
    from mindformers_megatron.corpus.prepare.folder import OutputFolder
    from mindformers_megatron.corpus.prepare.report import write_report
    from mindformers_megatron.corpus.prepare.run import Selection, carry_out
    from mindformers_megatron.corpus.recipe_file import read_recipe
    from mindformers_megatron.execution.engines import open_engine

    check_export(args.output)
    place = args.output.with_name(f"{args.output.name}.work")
    folder = OutputFolder(place / args.output.name)
    recipe = read_recipe(
        {
            "output": str(folder.root),
            "sources": _sources(args),
            "steps": list(steps),
            "evaluation": evaluation,
            "on_error": int(args.on_error) if args.on_error.isdecimal() else args.on_error,
            "report": {"languages": False},
            "memory_gb": args.memory_gb,
        },
        "the options",
        published=args.output,
    )
    engine = open_engine(args.engine, workers=args.workers, address=args.address)
    progress = StageProgress()
    with claim_indexes(recipe) as indexes:
        try:
            outcome = carry_out(recipe, engine, progress, Selection())
        finally:
            engine.close()
            progress.close()
            # It is not, where there is something to go on from.
            with contextlib.suppress(OSError):
                place.rmdir()
        assert outcome is not None
        count = export(outcome.divided, args.output)
        statistics = write_report(outcome)
        for path in folder.root.iterdir():
            if path != folder.work:
                path.replace(args.output.with_name(f"{args.output.name}.{path.name}"))
        indexes.add(outcome)
        shutil.rmtree(place)
    came = sum(counts["documents_in"] for counts in statistics["steps"][0]["sources"].values())
    if args.json:
        print(json.dumps(statistics, ensure_ascii=False))
    else:
        print(f"{came:,} documents read, {count:,} kept in {args.output}")
        print(f"report: {args.output}.stats_report.txt, {args.output}.data_stats.json")
    return 0


def _sources(args: argparse.Namespace) -> dict[str, dict[str, Any]]:
    """A source for each input, called by its name up to the first dot."""
    sources: dict[str, dict[str, Any]] = {}
    options = {name: getattr(args, name) for name in ("text_key", "id_key", "format", "encoding")}
    # The origin of a record that such a command wrote stays with it through the next one.
    options["meta_keys"] = ["url", "origin"]
    for path in args.input:
        name = Path(path).name.split(".")[0].strip("*?[]") or "input"
        sources.setdefault(name, {**options, "paths": []})["paths"].append(path)
    return sources
