"""A recipe carried out: stage by stage, each shard a job that is done once."""

import shutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from mindformers_megatron.corpus.jobs import Job
from mindformers_megatron.corpus.prepare.exchange import Gathered, Shard, Survey
from mindformers_megatron.corpus.prepare.folder import OutputFolder
from mindformers_megatron.corpus.prepare.growing import REASON
from mindformers_megatron.corpus.prepare.job_runner import JobRunner, Progress, Values
from mindformers_megatron.corpus.prepare.near import NearDedup
from mindformers_megatron.corpus.prepare.outcome import Corpus, Outcome, PartShard, StageOutcome
from mindformers_megatron.corpus.prepare.packing import pack
from mindformers_megatron.corpus.prepare.raw import RawPart, find_parts
from mindformers_megatron.corpus.prepare.rejects_file import RejectsFile
from mindformers_megatron.corpus.prepare.shard_work import GatherWork, ShardTask, SplitTask, SplitWork, StageWork
from mindformers_megatron.corpus.prepare.splitting import Split
from mindformers_megatron.corpus.prepare.stages import SPLIT, TOKENIZE, Stage, stages_of
from mindformers_megatron.corpus.recipe import Recipe
from mindformers_megatron.corpus.splits import REST
from mindformers_megatron.corpus.tally import Tally
from mindformers_megatron.errors import ConfigError, DataError, unknown_option
from mindformers_megatron.execution.engines import Engine
from mindformers_megatron.format.fingerprint import fingerprint_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Which stages are run.

    Attributes:
        only: this one alone; those before it must be finished.
        start: this one and those after it, anew, whatever is finished of them.
    """

    only: str | None = None
    start: str | None = None


def stage_names(recipe: Recipe) -> list[str]:
    """The names of the stages, in order."""
    names = [stage.name for stage in stages_of(recipe)]
    if recipe.splits.sizes:
        names.append(SPLIT)
    return [*names, TOKENIZE] if recipe.tokenizer is not None else names


def stage_of(recipe: Recipe, name: str) -> str:
    """The stage that a name stands for: its own, or that of a step in it.

    Raises:
        ConfigError: there is none.
    """
    names = stage_names(recipe)
    if name in names:
        return name
    for stage in stages_of(recipe):
        if name in stage.step_names:
            return stage.name
    known = [*names, *(step for stage in stages_of(recipe) for step in stage.step_names)]
    raise ConfigError(f"the recipe has no stage or step {name!r}: {unknown_option(name, dict.fromkeys(known))}")


def carry_out(recipe: Recipe, engine: Engine, progress: Progress, selection: Selection) -> Outcome | None:
    """Carries out a recipe, but for the report.

    What an earlier run has finished, killed or with another recipe, is not done again where the result would be the
    same.

    Args:
        recipe: the recipe.
        engine: where the work is done.
        progress: told how far it is.
        selection: which stages.

    Returns:
        What it came to; None if only a stage was asked for that is not the last.

    Raises:
        ConfigError: it cannot be done as asked.
        DataError: a raw file is missing or damaged, or nothing is left of the documents.
    """
    folder = OutputFolder(recipe.output)
    with folder.claim():
        return _carry_out(recipe, folder, engine, progress, selection)


def _carry_out(
    recipe: Recipe, folder: OutputFolder, engine: Engine, progress: Progress, selection: Selection
) -> Outcome | None:
    names = stage_names(recipe)
    only = None if selection.only is None else stage_of(recipe, selection.only)
    if selection.start is not None:
        for name in names[names.index(stage_of(recipe, selection.start)) :]:
            shutil.rmtree(folder.work / name, ignore_errors=True)
    jobs = JobRunner(
        folder,
        engine,
        progress,
        memory_bytes=recipe.memory_bytes,
        finished_before=[] if only is None else names[: names.index(only)],
    )
    parts = find_parts(recipe.sources, recipe.part_bytes)
    stages = stages_of(recipe)
    outgoing: list[tuple[str, Survey] | None] = [
        (stage.name, stage.incoming) for stage in stages[1:] if stage.incoming is not None
    ]
    outgoing.append((SPLIT, Split(recipe.splits)) if recipe.splits.sizes else None)
    outcomes: list[StageOutcome] = []
    for stage, following in zip(stages, outgoing, strict=True):
        run = _StageRun(recipe, folder, jobs, stage, following)
        outcomes.append(run.advance(outcomes[-1]) if outcomes else run.read(parts))
        if stage.name == only and only != names[-1]:
            return None
    last = outcomes[-1]
    if not any(shard.documents for shard in last.shards):
        _check_nothing(recipe, folder, outcomes)
    divided = _divide(recipe, folder, jobs, last)
    if only == SPLIT and only != names[-1]:
        return None
    corpora: Sequence[Corpus] = ()
    if recipe.tokenizer is not None:
        corpora = pack(recipe, folder, jobs, divided, parts, stages)
    return Outcome(
        recipe=recipe,
        parts=tuple(parts),
        stages=tuple(outcomes),
        divided=tuple(divided),
        corpora=tuple(corpora),
    )


def _check_nothing(recipe: Recipe, folder: OutputFolder, outcomes: Sequence[StageOutcome]) -> None:
    """Accepts that no document is left where an index has them all, unless pairs are to be made of them."""
    for outcome in outcomes:
        step = outcome.stage.incoming
        if recipe.tokenizer is None and isinstance(step, NearDedup) and step.index and outcome.found[REASON]:
            step.index.refuse_nothing(step.options, folder.found(outcome.stage.name))
            return
    raise DataError(f"{recipe.output}: no document is left after the steps; mfm prepare --dry-run shows some")


class _StageRun:
    """A stage, on all shards.

    Args:
        recipe: the recipe.
        folder: where things are.
        jobs: does them.
        stage: the stage.
        following: the stage that needs to look at what this one leaves, and how it looks.
    """

    def __init__(
        self,
        recipe: Recipe,
        folder: OutputFolder,
        jobs: JobRunner,
        stage: Stage,
        following: tuple[str, Survey] | None,
    ) -> None:
        self._recipe = recipe
        self._folder = folder
        self._jobs = jobs
        self._stage = stage
        self._following = following
        self._kept = folder.kept(stage.name)
        self._settings = stage.settings()

    def read(self, parts: Sequence[RawPart]) -> StageOutcome:
        """The first stage."""
        allowed = self._recipe.rejects_allowed
        shards, jobs = [], []
        for part in parts:
            key = fingerprint_of({"part": part.identity, "settings": self._settings})
            shards.append(
                Shard(
                    name=part.name,
                    source=part.source.name,
                    priority=part.source.priority,
                    path=self._kept / f"{part.name}.parquet",
                    key=key,
                )
            )
            jobs.append(self._job(shards[-1], part.part, part.part.bytes))
        work = StageWork(self._stage, None, self._following and self._following[1], allowed)
        with RejectsFile(self._folder.rejects, allowed) as rejects:
            results = self._jobs.run(self._stage.name, "reading", work, jobs, self._kept)
            return self._outcome(shards, rejects.noting(results, shards), rejects)

    def advance(self, before: StageOutcome) -> StageOutcome:
        """A stage that begins with a global step."""
        exchange = self._stage.incoming
        assert exchange is not None
        given = gather(self._folder, self._jobs, self._stage.name, exchange, before)
        found, summary = self._jobs.find(self._stage.name, exchange, given)
        shards, jobs = [], []
        for one in given:
            key = fingerprint_of({"shard": one.shard.key, "found": summary["key"], "settings": self._settings})
            shards.append(replace(one.shard, path=self._kept / f"{one.shard.name}.parquet", key=key))
            jobs.append(self._job(shards[-1], one, one.shard.bytes))
        work = StageWork(self._stage, found, self._following and self._following[1], None)
        results = self._jobs.run(self._stage.name, "applying", work, jobs, self._kept)
        return self._outcome(shards, results, found=summary)

    def _job(self, shard: Shard, given: Any, size: int) -> Job[ShardTask]:
        gathered, key = None, ""
        if self._following is not None:
            name, exchange = self._following
            gathered = self._folder.gathered(name) / f"{shard.name}.npz"
            key = _gathered_key(shard.key, exchange)
            gathered.parent.mkdir(parents=True, exist_ok=True)
        task = ShardTask(shard.name, given, shard.path, gathered, key)
        return Job(shard.name, shard.key, task, size, (shard.path,))

    def _outcome(
        self,
        shards: Sequence[Shard],
        results: Iterable[Values],
        rejects: RejectsFile | None = None,
        found: Values | None = None,
    ) -> StageOutcome:
        tallies = [Tally() for _ in self._stage.step_names]
        placed: list[Shard] = []
        first = 0
        for shard, result in zip(shards, results, strict=True):
            placed.append(replace(shard, documents=result["documents"], bytes=result["bytes"], first=first))
            first += placed[-1].documents
            for tally, values in zip(tallies, result["tallies"], strict=True):
                tally.add(Tally.from_json(values))
        return StageOutcome(
            stage=self._stage,
            shards=tuple(placed),
            tallies=tuple(tallies),
            rejects=rejects.counts if rejects is not None else {},
            found=found or {},
        )


def gather(folder: OutputFolder, jobs: JobRunner, stage: str, exchange: Survey, before: StageOutcome) -> list[Gathered]:
    """What all shards give to a global step; most have done so already when they were written."""
    target = folder.gathered(stage)
    given = [Gathered(shard, target / f"{shard.name}.npz") for shard in before.shards]
    listed = [
        Job(one.shard.name, _gathered_key(one.shard.key, exchange), one, one.shard.bytes, (one.path,)) for one in given
    ]
    for _ in jobs.run(stage, "looking at texts", GatherWork(exchange), listed, target):
        pass
    return given


def _divide(recipe: Recipe, folder: OutputFolder, jobs: JobRunner, last: StageOutcome) -> list[PartShard]:
    """What each shard gives to each part, by part."""
    options = recipe.splits
    if not options.sizes:
        return [PartShard(part=REST, shard=shard) for shard in last.shards if shard.documents]
    split = Split(options)
    given = gather(folder, jobs, SPLIT, split, last)
    found, summary = jobs.find(SPLIT, split, given)
    kept = folder.kept(SPLIT)
    listed = []
    for one in given:
        key = fingerprint_of({"shard": one.shard.key, "found": summary["key"]})
        outputs = {part: kept / f"{one.shard.name}.{part}.parquet" for part in options.parts}
        listed.append(Job(one.shard.name, key, SplitTask(one, outputs), one.shard.bytes, tuple(outputs.values())))
    results = list(jobs.run(SPLIT, "dividing", SplitWork(split, found), listed, kept))
    return [
        PartShard(
            part=part,
            shard=replace(job.task.given.shard, path=job.task.outputs[part], key=job.key, **counts),
        )
        for part in options.parts
        for job, result in zip(listed, results, strict=True)
        if (counts := result["parts"][part])["documents"]
    ]


def _gathered_key(shard: str, exchange: Survey) -> str:
    return fingerprint_of({"shard": shard, "gathered": exchange.gathering()})
