"""A run, opened from its YAML and the data states that it has left so far."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from mindformers_megatron.errors import ConfigError
from mindformers_megatron.report.steps import StepMap
from mindformers_megatron.sampling.grouped_plan import open_plan
from mindformers_megatron.sampling.plan import SamplePlan
from mindformers_megatron.sampling.shards import steps_per_epoch
from mindformers_megatron.sampling.state import PhaseState
from mindformers_megatron.settings.history import Stretch, going_on
from mindformers_megatron.settings.loader_options import LoaderOptions
from mindformers_megatron.settings.pynative import PynativeRun, is_pynative
from mindformers_megatron.settings.run_config import loader_options, our_loaders
from mindformers_megatron.settings.saved_state import NAME, SavedState, load_saved_state
from mindformers_megatron.settings.step_size import likely_ranks, reading_ranks, rows_per_step
from mindformers_megatron.settings.yaml_file import Config, read_config

COLUMNS = ("input_ids", "labels", "loss_mask", "position_ids")


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A run, as the last data state it left knows it.

    Attributes:
        plan: Its plan.
        steps: Which samples each step was given.
        planned: Samples of the whole run.
        reached: Samples that the last data state has seen; 0: there is none.
        logs: What ``MegatronMixMonitor`` wrote, as far as it is there.
        notes: What was taken for granted, for people to know.
    """

    plan: SamplePlan
    steps: StepMap
    planned: int
    reached: int
    logs: tuple[Path, ...]
    notes: tuple[str, ...]


def is_run(config: Config) -> bool:
    """Whether a YAML is that of a training with a loader of this package."""
    if is_pynative(config):
        dataset = config.get("train_dataset")
        return isinstance(dataset, dict) and "dataloader" in dataset
    return "train_dataset" in dict(our_loaders(config))


def open_run(path: Path, overrides: Sequence[str] = (), *, state: Path | None = None, ranks: int | None = None) -> Run:
    """Opens a run.

    What lies behind is as its last data state tells; what lies ahead is as the YAML says, as if it went on with it.

    Args:
        path: Its YAML, or the output folder in which it has left one.
        overrides: ``key=value`` settings that go over it.
        state: A data state, or a folder of them; None: those in the run's ``output_dir``.
        ranks: Ranks that share a step, whatever the YAML and the states say; None: what they say.

    Raises:
        ConfigError: For a bad option, or a YAML of no run of ours.
        DataError: For a damaged corpus or data state.
    """
    path = path / "config.yaml" if path.is_dir() else path
    config = read_config(path, overrides)
    if not is_run(config):
        raise ConfigError(f"{path}: train_dataset.data_loader names no loader of this package")
    last, notes = _last_state(state or _output_of(config), asked=state is not None)
    told = last.history[-1].ranks if last is not None and last.history else None
    reading = ranks or reading_ranks(config) or told
    if reading is None:
        reading = likely_ranks(config)
        if reading == 1:
            notes.append("the YAML does not tell how many ranks share a step: shown is one (mfm trace --ranks says it)")
    options = _options(config, last, reading)
    size = rows_per_step(config, reading) * reading
    steps = StepMap(_stretches(last, size, reading))
    if ranks is not None:
        steps = StepMap(tuple(replace(stretch, ranks=ranks) for stretch in steps.stretches))
    plan = _open_plan(options, last, size)
    return Run(
        plan=plan,
        steps=steps,
        planned=_planned(config, options, plan, size),
        reached=0 if last is None else last.state.consumed_samples,
        logs=_logs(config),
        notes=tuple(notes),
    )


def _output_of(config: Config) -> Path:
    if is_pynative(config):
        return Path(PynativeRun.of(config).save_path or "output")
    checkpoint = config.get("checkpoint") or {}
    # Checkpoints of the new layout may have a folder of their own.
    output = Path(config.get("output_dir") or "output")
    return output if output.is_dir() or not checkpoint.get("save_path") else Path(checkpoint["save_path"])


def _last_state(root: Path, *, asked: bool) -> tuple[SavedState | None, list[str]]:
    """The state that the run stands at, and what had to be chosen."""
    files = [root] if root.is_file() else [file for file in root.rglob(f"*{NAME}") if not _is_repeated(file)]
    if not files:
        if asked:
            raise ConfigError(f"--state {root}: no data state there")
        return None, []
    saved = sorted((load_saved_state(file) for file in files), key=lambda one: (one.state.consumed_samples, one.path))
    last = saved[-1]
    if all(_leads_to(one, last) for one in saved):
        return last, []
    # A run that was taken back and changed leaves states of what it gave up; those it wrote last are what counts.
    last = max(saved, key=lambda one: (one.path.stat().st_mtime_ns, one.state.consumed_samples))
    other = next(one for one in saved if not _leads_to(one, last))
    note = f"{other.path} is of another course of the run than the newest state; shown is that of {last.path} (--state)"
    return last, [note]


def _is_repeated(file: Path) -> bool:
    """Whether a state is one of another rank than 0, which are all the same."""
    rank = file.parent
    return bool(re.fullmatch(r"rank_[1-9]\d*", rank.name)) and (rank.parent / "rank_0").is_dir()


def _leads_to(one: SavedState, last: SavedState) -> bool:
    """Whether a run that stands at ``last`` has been at ``one``."""
    end = one.state.consumed_samples
    if end > last.state.consumed_samples:
        return False
    phases = [[_padded(phase) for phase in saved.state.phases if phase.first < end] for saved in (one, last)]
    stretches = [[stretch for stretch in saved.history if stretch.sample < end] for saved in (one, last)]
    return phases[0] == phases[1] and stretches[0] == stretches[1]


def _padded(phase: PhaseState) -> PhaseState:
    """A phase without the zeros of corpora that came later."""
    count = max(place for place, part in enumerate(phase.parts, 1) if part)
    return replace(phase, parts=phase.parts[:count], base=phase.base[:count])


def _stretches(last: SavedState | None, size: int, ranks: int) -> tuple[Stretch, ...]:
    if last is None:
        return (Stretch(0, 0, size, ranks),)
    before = last.history or (Stretch(0, 0, last.global_batch_size, ranks),)
    return going_on(before, Stretch(last.state.consumed_samples, last.step_under(size), size, ranks))


def _options(config: Config, last: SavedState | None, ranks: int) -> LoaderOptions:
    options = dict(PynativeRun.of(config).options if is_pynative(config) else config["train_dataset"]["data_loader"])
    # Which of them this process would be is nothing to a plan.
    options = {name: value for name, value in options.items() if name not in ("shard", "shard_id", "num_shards")}
    if options.get("shard_files") is True:
        options["shard_files"] = last.state.plan.get("shard_files") if last is not None else ranks
    options.pop("auto_register", None)
    if is_pynative(config):
        return LoaderOptions.from_options(options)
    return loader_options("train_dataset", {**config["train_dataset"], "data_loader": options})


def _open_plan(options: LoaderOptions, last: SavedState | None, size: int) -> SamplePlan:
    spec = replace(options.plan, columns=COLUMNS)
    state = None if last is None else last.state
    if spec.shard_files is not None:
        grouped = open_plan(spec)
        return grouped if state is None else grouped.resumed(state)
    if options.repeat_epochs and state is None:
        plan = SamplePlan(spec)
        return plan.repeated_after(steps_per_epoch(options.epoch_of(plan), size) * size)
    if options.repeat_epochs and state is not None:
        spec = replace(spec, repeat_after=state.plan.get("repeat_after"))
    return SamplePlan(spec, state, "continue")


def _planned(config: Config, options: LoaderOptions, plan: SamplePlan, size: int) -> int:
    if is_pynative(config):
        return int(config["training"].get("steps") or 1) * size
    return options.epoch_of(plan) * int((config.get("runner_config") or {}).get("epochs") or 1)


def _logs(config: Config) -> tuple[Path, ...]:
    monitors = [entry for entry in config.get("callbacks") or () if isinstance(entry, dict)]
    named = [entry.get("path") for entry in monitors if entry.get("type") == "MegatronMixMonitor"]
    return tuple(Path(name) for name in named if isinstance(name, str) and Path(name).is_file())
