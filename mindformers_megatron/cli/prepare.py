"""``mfm prepare``: a recipe, from raw files to corpora ready for training."""

import argparse
import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mindformers_megatron.corpus.recipe import Recipe


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of ``mfm prepare``."""
    parser.add_argument("recipe", type=Path, help="the recipe, a YAML file")
    parser.add_argument(
        "overrides", nargs="*", metavar="KEY=VALUE", help="says otherwise than the recipe, as splits.test=100"
    )
    group = parser.add_argument_group("what is done")
    group.add_argument("--dry-run", action="store_true", help="show the plan, and what steps make of some documents")
    group.add_argument("--only", metavar="STAGE", help="this stage alone; those before it must be finished")
    group.add_argument(
        "--from", dest="start", metavar="STAGE", help="this stage and those after it anew, whatever is finished"
    )
    group.add_argument("--remove-work", action="store_true", help="remove OUTPUT/work in the end")
    group.add_argument("--train", action="store_true", help="then train on OUTPUT/train.yaml, as mfm train does")
    add_engine_arguments(parser.add_argument_group("where"))
    parser.add_argument("--json", action="store_true", help="print the statistics as JSON")


def add_engine_arguments(group: "argparse._ArgumentGroup") -> None:
    """The options about where the work is done, which do not change the result."""
    group.add_argument("--engine", choices=("local", "ray"), default="local", help="processes here, or a Ray cluster")
    group.add_argument("--workers", type=int, metavar="N", help="tasks at once (one per core)")
    group.add_argument("--address", help="of the Ray cluster, as ray.init takes it (RAY_ADDRESS)")


def run(args: argparse.Namespace) -> int:
    """Runs the command."""
    from mindformers_megatron.corpus.recipe_file import read_recipe
    from mindformers_megatron.settings.yaml_file import read_config

    recipe = read_recipe(read_config(args.recipe, args.overrides), str(args.recipe))
    if args.dry_run:
        from mindformers_megatron.corpus.prepare.dry_run import describe_plan

        print(describe_plan(recipe))
        return 0
    return carry_out(recipe, args, then_train=args.train)


def carry_out(recipe: "Recipe", args: argparse.Namespace, *, then_train: bool) -> int:
    """Does what a recipe says, showing progress on stderr and a summary on stdout; returns the exit code."""
    from mindformers_megatron.cli.stage_progress import StageProgress
    from mindformers_megatron.corpus.prepare.additions import claim_indexes
    from mindformers_megatron.corpus.prepare.folder import OutputFolder
    from mindformers_megatron.corpus.prepare.report import write_report
    from mindformers_megatron.corpus.prepare.run import Selection
    from mindformers_megatron.corpus.prepare.run import carry_out as carry_out_recipe
    from mindformers_megatron.errors import ConfigError
    from mindformers_megatron.execution.engines import open_engine

    folder = OutputFolder(recipe.output)
    if then_train and (recipe.tokenizer is None or recipe.training.base_config is None):
        raise ConfigError("--train needs a recipe with a tokenizer and with training.base_config, the YAML to train by")
    engine = open_engine(args.engine, workers=args.workers, address=args.address)
    progress = StageProgress()
    with claim_indexes(recipe) as indexes:
        try:
            outcome = carry_out_recipe(recipe, engine, progress, Selection(only=args.only, start=args.start))
        finally:
            engine.close()
            progress.close()
        if outcome is None:
            print(f"stage {args.only} is finished")
            return 0
        statistics = write_report(outcome)
        indexes.add(outcome)
    if args.remove_work:
        shutil.rmtree(folder.work)
    print(json.dumps(statistics, ensure_ascii=False) if args.json else _summary(statistics, folder))
    if then_train:
        from mindformers_megatron.cli import train

        parser = argparse.ArgumentParser()
        train.add_arguments(parser)
        return train.run(parser.parse_args(["--config", str(folder.training)]))
    return 0


def _summary(statistics: dict[str, Any], folder: Any) -> str:
    first = statistics["steps"][0]["sources"].values()
    came = sum(counts["documents_in"] for counts in first)
    kept = sum(part["documents"] for part in statistics["splits"].values())
    lines = [f"{came:,} documents read, {kept:,} kept ({100 * kept / max(came, 1):.1f} %)"]
    for corpus in statistics["corpora"]:
        name = folder.root / corpus["path"]
        lines.append(f"{name}.bin/.idx: {corpus['documents']:,} documents, {corpus['tokens']:,} tokens")
    lines.append(f"report: {folder.report}, {folder.statistics}")
    if statistics["corpora"]:
        lines.append(f"training: {folder.training}")
    return "\n".join(lines)
