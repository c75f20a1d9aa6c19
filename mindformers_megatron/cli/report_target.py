"""What ``mfm report`` and ``mfm serve`` are pointed at, opened: a folder, a recipe, or the YAML of a run."""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mindformers_megatron.errors import ConfigError

if TYPE_CHECKING:
    from mindformers_megatron.format.reader import IndexedDataset
    from mindformers_megatron.report.html.page import Contents
    from mindformers_megatron.report.prepared import Prepared
    from mindformers_megatron.report.run import Run
    from mindformers_megatron.report.run_mix import RunMix
    from mindformers_megatron.report.viewer import Viewer

_DEEPEST = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """What was found.

    Attributes:
        name: What it is called.
        run: None where it is no run.
        prepared: None where it is not known how the corpus was prepared.
        pairs: The corpora, by name.
        viewer: Shows samples and documents.
    """

    name: str
    run: "Run | None" = None
    prepared: "Prepared | None" = None
    pairs: "dict[str, IndexedDataset]" = field(default_factory=dict)
    viewer: "Viewer"


def add_target_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds what says what a report is about, and how much it shows."""
    parser.add_argument(
        "target", type=Path, help="a folder (of mfm prepare, of pairs, or a run's output), a recipe, or a run's YAML"
    )
    parser.add_argument("--tokenizer", help="a tokenizer's folder or file, to show text instead of ids")
    parser.add_argument("--samples", type=int, default=24, help="samples to show (default: 24)")
    parser.add_argument("--documents", type=int, default=1000, help="documents to show (default: 1,000)")
    parser.add_argument("overrides", nargs="*", metavar="key=value", help="for a run, as for mfm train")


def open_target(args: argparse.Namespace) -> Target:
    """Opens what the arguments of ``add_target_arguments`` name.

    Raises:
        ConfigError: There is nothing to report on.
        DataError: Something there is damaged.
    """
    from mindformers_megatron.report.viewer import Viewer
    from mindformers_megatron.tokenization.decoding import open_decoder

    for name in ("samples", "documents"):
        if getattr(args, name) < 0:
            raise ConfigError(f"--{name} is {getattr(args, name)}; expected 0 or more")
    target: Path = args.target
    if not target.exists():
        raise ConfigError(f"{target}: no such file or folder; give a folder, a recipe or the YAML of a run")
    decode = open_decoder(args.tokenizer) if args.tokenizer else None
    folder = target if target.is_dir() else target.parent
    viewer = Viewer(decode, (Path.cwd(), folder))
    config = target / "config.yaml" if target.is_dir() else target
    run = _run(config, args.overrides)
    if run is not None:
        for note in run.notes:
            print(f"mfm: {note}", file=sys.stderr)
        pairs = {name: corpus.dataset for name, corpus in run.plan.corpora.items()}
        prepared = _prepared_near([Path(dataset.prefix).parent for dataset in pairs.values()])
        return Target(name=target.name or str(target), run=run, prepared=prepared, pairs=pairs, viewer=viewer)
    if args.overrides:
        raise ConfigError(f"{target}: is not the YAML of a run, so that {args.overrides[0]!r} has no place in it")
    if not target.is_dir():
        folder = _output_of(target)
    found = Target(
        name=target.resolve().name, prepared=_prepared_near([folder]), pairs=_pairs_in(folder), viewer=viewer
    )
    if found.prepared is None and not found.pairs:
        raise ConfigError(f"{folder}: neither data_stats.json nor a .bin/.idx pair is in it, and no run's config.yaml")
    return found


def contents_of(target: Target, *, samples: int, documents: int, live: bool = False) -> "Contents":
    """All that a page shows of a target."""
    from mindformers_megatron.report.html.page import Contents, PairSummary
    from mindformers_megatron.report.lengths import length_histogram

    run, shown = target.run, list[dict[str, Any]]()
    if run is not None and samples:
        shown = target.viewer.samples(run.plan, run.steps, max(run.planned, run.reached), samples)
    pairs = [
        PairSummary(
            name=name,
            path=dataset.prefix,
            tokens=dataset.num_tokens,
            documents=dataset.num_documents,
            lengths=length_histogram(dataset.index),
        )
        for name, dataset in target.pairs.items()
    ]
    return Contents(
        name=target.name,
        fingerprint=None if run is None else run.plan.fingerprint,
        prepared=target.prepared,
        mix=mix_of(target),
        pairs=pairs,
        samples=shown,
        documents=target.viewer.documents(list(target.pairs.items()), documents) if documents else [],
        live=live,
    )


def mix_of(target: Target) -> "RunMix | None":
    """The mix of a target's run."""
    from mindformers_megatron.report.run_mix import read_records, run_mix

    run = target.run
    if run is None:
        return None
    records = [record for log in run.logs for record in read_records(log)]
    return run_mix(run.plan, run.planned, run.reached, records)


def _run(path: Path, overrides: Sequence[str]) -> "Run | None":
    """The run of a YAML; None where it is that of something else."""
    from mindformers_megatron.report.run import is_run, open_run
    from mindformers_megatron.sampling.grouped_plan import GroupedPlan
    from mindformers_megatron.settings.yaml_file import read_config

    if not path.is_file() or not is_run(read_config(path)):
        return None
    run = open_run(path, overrides)
    if isinstance(run.plan, GroupedPlan):
        run.plan.open(range(run.plan.groups))
    return run


def _output_of(recipe: Path) -> Path:
    from mindformers_megatron.settings.yaml_file import read_config

    output = read_config(recipe).get("output")
    if not isinstance(output, str):
        raise ConfigError(f"{recipe}: neither the YAML of a run of this package's loaders, nor a recipe with an output")
    if not Path(output).is_dir():
        raise ConfigError(f"{recipe}: its output {output} is not there yet; make it with mfm prepare {recipe}")
    return Path(output)


def _prepared_near(folders: Sequence[Path]) -> "Prepared | None":
    """What ``mfm prepare`` wrote in one of the folders, or in the one above."""
    from mindformers_megatron.report.found_texts import with_texts
    from mindformers_megatron.report.prepared import NAME, read_prepared

    for near in dict.fromkeys(near for folder in folders for near in (folder, folder.resolve().parent)):
        if (near / NAME).is_file():
            return with_texts(read_prepared(near / NAME), near)
    return None


def _pairs_in(folder: Path) -> "dict[str, IndexedDataset]":
    from mindformers_megatron.corpus.prepare.folder import OutputFolder
    from mindformers_megatron.format.reader import IndexedDataset

    files = [file for depth in range(_DEEPEST) for file in sorted(folder.glob("*/" * depth + "*.idx"))]
    # What stages leave for each other is no result.
    files = [file for file in files if file.relative_to(folder).parts[0] != OutputFolder(folder).work.name]
    prefixes = [file.with_suffix("") for file in files if file.with_suffix(".bin").is_file()]
    names = [prefix.name for prefix in prefixes]
    return {
        prefix.name if names.count(prefix.name) == 1 else str(prefix.relative_to(folder)): IndexedDataset(prefix)
        for prefix in prefixes
    }
