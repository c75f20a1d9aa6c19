"""A recipe as a file: one page of YAML, checked whole before anything is done."""

import os
import re
import site
import sysconfig
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from mindformers_megatron.corpus.decontaminate.actions import ContaminationOptions
from mindformers_megatron.corpus.dedup.exact import ExactOptions
from mindformers_megatron.corpus.dedup.near import NearOptions
from mindformers_megatron.corpus.parameters import from_options
from mindformers_megatron.corpus.passages import Unit
from mindformers_megatron.corpus.prepare.contamination import Decontaminate, EvaluationSet
from mindformers_megatron.corpus.prepare.exact import ExactDedup
from mindformers_megatron.corpus.prepare.folder import OutputFolder
from mindformers_megatron.corpus.prepare.growing import GrowingIndex
from mindformers_megatron.corpus.prepare.near import NearDedup
from mindformers_megatron.corpus.readers.sources import Source
from mindformers_megatron.corpus.recipe import (
    GLOBAL_STEPS,
    GlobalStep,
    PackingOptions,
    Recipe,
    RecipeSource,
    ReportOptions,
    TokenizerOptions,
    TrainingOptions,
)
from mindformers_megatron.corpus.registry import DEFAULT_CHAIN, STEPS, build_step
from mindformers_megatron.corpus.splits import SplitOptions
from mindformers_megatron.corpus.steps import ForSources, Step
from mindformers_megatron.errors import ConfigError, unknown_option

# Stands for the steps of ``DEFAULT_CHAIN``.
DEFAULT = "default"
_VARIABLE = re.compile(r"\$\{(\w+)\}")


@dataclass(frozen=True, slots=True, kw_only=True)
class _EvaluationOptions:
    paths: tuple[str, ...]
    keys: tuple[str, ...] | None = None
    document: Unit = "paragraph"


@dataclass(frozen=True, slots=True, kw_only=True)
class _NearDedupOptions(NearOptions):
    index: str | None = None
    index_read_only: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sections:
    """The file as it is written."""

    output: str
    sources: Mapping[str, Any]
    steps: Any = ()
    evaluation: Any = None
    splits: Any = None
    tokenizer: Any = None
    packing: Any = None
    report: Any = None
    training: Any = None
    on_error: Any = "fail"
    part_mb: float = 64.0
    memory_gb: float = 1.0
    seed: int = 1


def read_recipe(values: Mapping[str, Any], where: str, *, published: Path | None = None) -> Recipe:
    """Makes a recipe of what its file says, and checks it whole.

    ``${NAME}`` in a path stands for a variable of the environment, or for ``PYTHON_LIBRARY`` and ``SITE_PACKAGES``: the
    folders of Python's own library and of the installed packages.

    Args:
        values: as they come from YAML.
        where: the name of the file, for errors.
        published: what there is when a run has published what it keeps; None: the statistics in the output folder.

    Raises:
        ConfigError: one line: an unknown name (with the nearest known one), a missing one, or a bad value.
    """
    known = [item.name for item in fields(_Sections)]
    for name in values:
        if name not in known:
            raise ConfigError(f"{where}: {unknown_option(str(name), known)}")
    for name in ("output", "sources"):
        if not values.get(name):
            raise ConfigError(f"{where}: {name} is missing")
    sections = _Sections(**values)
    if not isinstance(sections.output, str):
        raise ConfigError(f"{where}: output is {sections.output!r}; expected a folder")
    sets = _evaluation(sections.evaluation, f"{where}: evaluation")
    sources = _sources(sections.sources, f"{where}: sources")
    output = Path(_filled(sections.output, where))
    published = published or OutputFolder(output).statistics
    steps = _steps(sections.steps, sets, [source.name for source in sources], published, f"{where}: steps")
    if sets and not any(isinstance(step, Decontaminate) for step in steps):
        raise ConfigError(f"{where}: evaluation sets are given, but no step looks for them; add {Decontaminate.name}")
    seed = _number(sections.seed, int, 0, f"{where}: seed")
    return Recipe(
        output=output,
        sources=sources,
        steps=steps,
        splits=_splits(sections.splits, int(seed), f"{where}: splits"),
        tokenizer=_tokenizer(sections.tokenizer, f"{where}: tokenizer"),
        packing=from_options(PackingOptions, sections.packing, f"{where}: packing"),
        report=from_options(ReportOptions, sections.report, f"{where}: report"),
        training=_training(sections.training, f"{where}: training"),
        rejects_allowed=rejects_allowed(sections.on_error, f"{where}: on_error"),
        part_bytes=int(_number(sections.part_mb, float, 1e-6, f"{where}: part_mb") * (1 << 20)) or 1,
        memory_bytes=int(_number(sections.memory_gb, float, 1e-4, f"{where}: memory_gb") * (1 << 30)),
    )


def rejects_allowed(value: Any, where: str) -> int | None:
    """How many records may be none: ``fail`` 0, ``skip`` any number (None), or the number itself."""
    if value in ("fail", "skip"):
        return 0 if value == "fail" else None
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ConfigError(f"{where} is {value!r}; give fail, skip, or a number of bad records")
    return value


def _sources(sections: Any, where: str) -> tuple[RecipeSource, ...]:
    if not isinstance(sections, Mapping):
        raise ConfigError(f"{where}: {sections!r}; expected sources, as name: options")
    sources = []
    for rank, (name, options) in enumerate(sections.items()):
        here = f"{where}.{name}"
        # A source that needs nothing but its paths is written as these.
        given = dict(options) if isinstance(options, Mapping) else {"paths": options}
        if "name" in given:
            raise ConfigError(f"{here}: name is given, but a source is called what stands before its options")
        priority = int(_number(given.pop("priority", rank), int, 0, f"{here}: priority"))
        named = {**given, "name": str(name), "paths": _paths(given.get("paths"), here)}
        sources.append(RecipeSource(from_options(Source, named, here), priority))
    return tuple(sources)


def _steps(
    entries: Any, sets: tuple[EvaluationSet, ...], sources: Sequence[str], published: Path, where: str
) -> tuple[Step | GlobalStep, ...]:
    if not isinstance(entries, list | tuple):
        raise ConfigError(f"{where}: {entries!r}; expected a list of steps")
    steps: list[Step | GlobalStep] = []
    for number, entry in enumerate(entries, 1):
        here = f"{where}: {number}"
        for one in DEFAULT_CHAIN if entry == DEFAULT else (entry,):
            try:
                step = _global_step(one, sets, published) or build_step(one)
            except ConfigError as error:
                raise ConfigError(f"{here}: {error}") from None
            if isinstance(step, ForSources):
                for name in step.sources:
                    if name not in sources:
                        message = unknown_option(name, sources).replace("option", "source")
                        raise ConfigError(f"{here}: step {step.name}: {message}")
            steps.append(step)
    return tuple(steps)


def _global_step(entry: Any, sets: tuple[EvaluationSet, ...], published: Path) -> GlobalStep | None:
    """None if it is another step."""
    name, options = entry, None
    if isinstance(entry, Mapping) and len(entry) == 1:
        ((name, options),) = entry.items()
    here = f"step {name}"
    if name == ExactDedup.name:
        return ExactDedup(from_options(ExactOptions, options, here))
    if name == NearDedup.name:
        return _near_dedup(from_options(_NearDedupOptions, options, here), published, here)
    if name == Decontaminate.name:
        if not sets:
            raise ConfigError(f"{here}: there are no evaluation sets; name them under evaluation")
        return Decontaminate(sets, from_options(ContaminationOptions, options, here))
    names = [*STEPS, *(step.name for step in GLOBAL_STEPS), DEFAULT]
    if isinstance(name, str) and name not in names:
        raise ConfigError(unknown_option(name, names).replace("option", "step"))
    return None


def _near_dedup(given: _NearDedupOptions, published: Path, where: str) -> NearDedup:
    options = NearOptions(**{item.name: getattr(given, item.name) for item in fields(NearOptions)})
    if given.index is not None:
        return NearDedup(options, GrowingIndex(_filled(given.index, where), published, given.index_read_only))
    if given.index_read_only:
        raise ConfigError(f"{where}: index_read_only is given, but no index")
    return NearDedup(options)


def _evaluation(sections: Any, where: str) -> tuple[EvaluationSet, ...]:
    if sections is None:
        return ()
    if not isinstance(sections, Mapping):
        raise ConfigError(f"{where}: {sections!r}; expected evaluation sets, as name: options")
    sets = []
    for name, options in sections.items():
        here = f"{where}.{name}"
        given = dict(options) if isinstance(options, Mapping) else {"paths": options}
        given["paths"] = _paths(given.get("paths"), here)
        chosen = from_options(_EvaluationOptions, given, here)
        sets.append(EvaluationSet(str(name), chosen.paths, chosen.keys, chosen.document))
    return tuple(sets)


def _splits(sizes: Any, seed: int, where: str) -> SplitOptions:
    given = from_options(_SplitSizes, {"sizes": sizes or {}}, where)
    for name in given.sizes:
        if "/" in name or "\0" in name:
            raise ConfigError(f"{where}: {name!r} becomes part of file names; give a name without '/'")
    try:
        return SplitOptions(sizes=given.sizes, seed=seed)
    except ConfigError as error:
        raise ConfigError(f"{where}: {error}") from None


@dataclass(frozen=True, slots=True)
class _SplitSizes:
    sizes: Mapping[str, float]


def _tokenizer(options: Any, where: str) -> TokenizerOptions | None:
    if options is None:
        return None
    given = dict(options) if isinstance(options, Mapping) else {"path": options}
    for name in ("path", "vocab_file", "merge_file"):
        if isinstance(given.get(name), str):
            given[name] = _filled(given[name], where)
    return from_options(TokenizerOptions, given, where)


def _training(options: Any, where: str) -> TrainingOptions:
    given = dict(options) if isinstance(options, Mapping) else options
    settings: Any = given.pop("settings", None) if isinstance(given, dict) else None
    made = from_options(TrainingOptions, given, where)
    if settings is not None and not isinstance(settings, Mapping):
        raise ConfigError(f"{where}: settings is {settings!r}; expected settings, as dotted.path: value")
    return TrainingOptions(
        base_config=None if made.base_config is None else _filled(made.base_config, where), settings=settings or {}
    )


def _paths(paths: Any, where: str) -> list[str]:
    listed = [paths] if isinstance(paths, str) else paths
    if not isinstance(listed, list | tuple) or not listed or not all(isinstance(path, str) for path in listed):
        raise ConfigError(f"{where}: paths is {paths!r}; expected a file, folder or pattern, or a list of them")
    return [_filled(path, where) for path in listed]


def _filled(text: str, where: str) -> str:
    def value(found: "re.Match[str]") -> str:
        name = found[1]
        filled = os.environ.get(name) or _folders().get(name)
        if filled is None:
            raise ConfigError(f"{where}: {found[0]} in {text!r} is not set in the environment")
        return filled

    return _VARIABLE.sub(value, text)


def _folders() -> dict[str, str]:
    return {
        "PYTHON_LIBRARY": sysconfig.get_path("stdlib"),
        "SITE_PACKAGES": sysconfig.get_path("purelib") or site.getsitepackages()[0],
    }


def _number(value: Any, kind: type, least: float, where: str) -> float:
    allowed = (int, float) if kind is float else int
    if isinstance(value, bool) or not isinstance(value, allowed) or value < least:
        what = "a number" if kind is float else "a whole number"
        raise ConfigError(f"{where} is {value!r}; expected {what} ≥ {least:g}")
    return float(value) if kind is float else value
