"""What a recipe would do: its files, its stages, and what the first steps make of some documents."""

from collections.abc import Iterator
from itertools import chain, islice

from mindformers_megatron.corpus.batch import Batch
from mindformers_megatron.corpus.prepare.folder import OutputFolder
from mindformers_megatron.corpus.prepare.needs import needs_of
from mindformers_megatron.corpus.prepare.raw import RawPart, find_parts, raw_files
from mindformers_megatron.corpus.prepare.run import stage_names
from mindformers_megatron.corpus.prepare.stages import Languages, Read, stages_of
from mindformers_megatron.corpus.readers.reading import read_part
from mindformers_megatron.corpus.recipe import Recipe
from mindformers_megatron.corpus.rejects import Rejects
from mindformers_megatron.corpus.tally import Tally

# Documents of each source that are shown, and characters of each.
_SHOWN, _CHARACTERS = 3, 200


def describe_plan(recipe: Recipe) -> str:
    """The plan as text. Nothing is written.

    Raises:
        ConfigError, DataError: what would end the run at its beginning.
    """
    parts = find_parts(recipe.sources, recipe.part_bytes)
    return "\n".join(chain(_plan(recipe, parts), _samples(recipe, parts)))


def _plan(recipe: Recipe, parts: list[RawPart]) -> Iterator[str]:
    yield "sources:"
    for source in recipe.sources:
        files = raw_files(parts, source.name)
        count = sum(part.source is source for part in parts)
        size = sum(file.size for file in files)
        yield f"  {source.name}: {len(files):,} files, {size:,} bytes, {count:,} shards, priority {source.priority}"
    yield "stages:"
    for stage in stages_of(recipe):
        yield f"  {stage.name}: {', then '.join(name for name in stage.step_names if name != Languages.name)}"
    for name in stage_names(recipe)[len(stages_of(recipe)) :]:
        what = ", ".join(f"{part} {size:g}" for part, size in recipe.splits.sizes.items())
        yield f"  {name}: {what}" if what and name != stage_names(recipe)[-1] else f"  {name}"
    if needs := list(needs_of(recipe, parts)):
        yield f"to compare about {needs[0].documents:,} documents, if no step drops any before:"
        for need in needs:
            memory, disk = need.footprint.memory_bytes / 1e6, need.footprint.disk_bytes / 1e6
            yield f"  {need.stage}: {memory:,.1f} MB of memory, {disk:,.1f} MB on disk for the time"
    yield f"output: {recipe.output}"
    for part in recipe.splits.parts if recipe.tokenizer is not None else ():
        for source in recipe.sources:
            yield f"  {OutputFolder(recipe.output).corpora / f'{source.name}_{part}_text_document'}.bin/.idx"


def _samples(recipe: Recipe, parts: list[RawPart]) -> Iterator[str]:
    steps = [Read(), *stages_of(recipe)[0].steps]
    for source in recipe.sources:
        part = next((part for part in parts if part.source is source), None)
        if part is None:
            continue
        for document in islice(read_part(part.part, Rejects(None).add), _SHOWN):
            yield f"sample of {source.name}: {document.id}"
            yield f"  raw: {_shown(document.text)}"
            batch = Batch([document])
            for step in steps:
                tally = Tally()
                after = step.apply(batch, tally)
                yield from _change(step.name, tally)
                batch = after
                if not batch:
                    break


def _change(name: str, tally: Tally) -> Iterator[str]:
    for reason, examples in tally.examples.items():
        for example in examples:
            if example.after is None:
                detail = f" ({example.detail})" if example.detail else ""
                yield f"  {name}: dropped: {reason}{detail}"
            else:
                yield f"  {name}: {_shown(example.after)}"


def _shown(text: str) -> str:
    return repr(text[:_CHARACTERS])
