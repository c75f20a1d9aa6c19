"""``mfm blend``: what the mix of a run will be, before any training."""

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mindformers_megatron.sampling.plan import SamplePlan

# Repeating data up to about four times is nearly as good as new data (Muennighoff et al., 2023).
MANY_EPOCHS = 4.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of ``mfm blend``."""
    parser.add_argument("--config", required=True, type=Path, help="MindFormers' YAML")
    parser.add_argument("--dataset", default="train_dataset", help="its section to look at (default: train_dataset)")
    parser.add_argument("--samples", type=int, help="samples of the run (default: its epochs times num_samples)")
    parser.add_argument("--json", action="store_true", help="for programs")
    parser.add_argument("overrides", nargs="*", metavar="key=value", help="as for mfm train")


def run(args: argparse.Namespace) -> int:
    """Prints the table of the mix, and warnings about corpora repeated many times or never reached."""
    from dataclasses import asdict, replace

    from mindformers_megatron.errors import ConfigError
    from mindformers_megatron.sampling.describe import describe
    from mindformers_megatron.sampling.plan import SamplePlan
    from mindformers_megatron.settings.run_config import loader_options, our_loaders
    from mindformers_megatron.settings.yaml_file import read_config

    config = read_config(args.config, args.overrides)
    if args.dataset not in dict(our_loaders(config)):
        raise ConfigError(f"{args.config}: {args.dataset}.data_loader names no loader of this package")
    if args.samples is not None and args.samples < 1:
        raise ConfigError(f"--samples is {args.samples}; expected a whole number ≥ 1")
    # Groups of files change which rank opens what, not the mix.
    plan = SamplePlan(replace(loader_options(args.dataset, config[args.dataset]).plan, shard_files=None))
    epochs = int((config.get("runner_config") or {}).get("epochs") or 1)
    samples = args.samples or plan.num_samples * epochs
    plan.check_epochs(samples)
    notes = warnings(plan, samples)
    if args.json:
        rows = [asdict(row) for row in plan.table(samples)]
        print(json.dumps({"samples": samples, "fingerprint": plan.fingerprint, "corpora": rows, "warnings": notes}))
        return 0
    print(describe(plan, samples))
    for note in notes:
        print(f"mfm blend: warning: {note}", file=sys.stderr)
    return 0


def warnings(plan: "SamplePlan", samples: int) -> list[str]:
    """What about the mix of ``samples`` samples is probably not meant, a line for each corpus."""
    notes = []
    for row in plan.table(samples):
        if row.samples == 0:
            notes.append(f"{row.name} is never reached in {samples:,} samples (share {row.share:.3g})")
        elif row.epochs > MANY_EPOCHS:
            notes.append(f"{row.name} is repeated {row.epochs:.1f} times in {samples:,} samples; max_epochs limits it")
    return notes
