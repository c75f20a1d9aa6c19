"""``data_stats.json``: what happened to the texts of a recipe, for programs. docs/corpus.md explains the fields."""

from typing import Any

import numpy as np
import orjson

from mindformers_megatron.corpus.prepare.contamination import REPORT, Decontaminate
from mindformers_megatron.corpus.prepare.folder import OutputFolder
from mindformers_megatron.corpus.prepare.outcome import Outcome, StageOutcome
from mindformers_megatron.corpus.prepare.raw import raw_files
from mindformers_megatron.corpus.prepare.stages import Languages
from mindformers_megatron.corpus.prepare.tables import name_documents

SCHEMA_VERSION = 1
# Evaluation items told in the file; all are in the table.
_ITEMS = 100

Values = dict[str, Any]


def statistics(outcome: Outcome) -> Values:
    """The content of the file: the same for the same recipe and raw files, wherever and however it was carried out."""
    steps, languages = _steps(outcome)
    return {
        "schema_version": SCHEMA_VERSION,
        "name": outcome.recipe.output.name,
        "sources": _sources(outcome),
        "steps": steps,
        "global_steps": _global_steps(outcome),
        "kept": _kept(outcome),
        "languages": languages,
        "splits": _splits(outcome),
        "tokenizer": outcome.corpora[0].written["tokenizer"] if outcome.corpora else None,
        "packing": {
            "append_eod": outcome.recipe.packing.append_eod,
            "seq_length": outcome.recipe.packing.seq_length,
        },
        "corpora": [
            {
                "source": corpus.source,
                "split": corpus.part,
                "path": corpus.prefix.relative_to(outcome.recipe.output).as_posix(),
                **{name: value for name, value in corpus.written.items() if name != "tokenizer"},
            }
            for corpus in outcome.corpora
        ],
    }


def _sources(outcome: Outcome) -> Values:
    rejects = outcome.stages[0].rejects
    sources = {}
    for source in outcome.recipe.sources:
        files = raw_files(outcome.parts, source.name)
        sources[source.name] = {
            "files": len(files),
            "bytes": sum(file.size for file in files),
            "priority": source.priority,
            "rejected_records": rejects.get(source.name, 0),
        }
    return sources


def _steps(outcome: Outcome) -> tuple[list[Values], Values]:
    """What each step did; and the languages of what is kept."""
    steps: list[Values] = []
    languages: Values = {}
    for stage in outcome.stages:
        for place, (name, settings) in enumerate(zip(stage.stage.step_names, stage.stage.settings(), strict=True)):
            tally = stage.tallies[place]
            if name == Languages.name:
                languages = {
                    source: dict(sorted(counts.found.items(), key=lambda item: (-item[1], item[0])))
                    for source, counts in sorted(tally.sources.items())
                }
                continue
            parameters = settings.get("parameters", {})
            steps.append(
                {
                    "step": name,
                    "stage": stage.stage.name,
                    "version": settings["version"],
                    "parameters": parameters,
                    **tally.to_json(),
                }
            )
    return steps, languages


def _global_steps(outcome: Outcome) -> list[Values]:
    found = []
    for before, stage in zip(outcome.stages, outcome.stages[1:], strict=False):
        assert stage.stage.incoming is not None
        values = {"step": stage.stage.name, "kind": stage.stage.incoming.name, **stage.found}
        values.pop("key")
        if isinstance(stage.stage.incoming, Decontaminate):
            values["items"] = _items(outcome, before, stage)
        found.append(values)
    return found


def _items(outcome: Outcome, before: StageOutcome, stage: StageOutcome) -> list[Values]:
    """The evaluation items of which the most was found."""
    report = orjson.loads((OutputFolder(outcome.recipe.output).found(stage.stage.name) / REPORT).read_bytes())
    items = [{"set": entry["name"], **item} for entry in report for item in entry["contaminated"]]
    items.sort(key=lambda item: (-item["ngrams_found"] / item["ngrams"], item["set"], item["item"]))
    items = items[:_ITEMS]
    numbers = np.array([number for item in items for number in item["first_documents"]], dtype=np.int64)
    names = name_documents(before.shards, numbers)
    for item in items:
        listed = names.of(np.array(item.pop("first_documents"), dtype=np.int64))
        columns = {name: column.to_pylist() for name, column in listed.items()}
        item["first_documents"] = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    return items


def _kept(outcome: Outcome) -> Values:
    """By source and part; with the share that a source has of the tokens of a part (of the bytes, without any)."""
    kept: Values = {source.name: {} for source in outcome.recipe.sources}
    for one in outcome.divided:
        counts = kept[one.shard.source].setdefault(one.part, {"documents": 0, "bytes": 0})
        counts["documents"] += one.shard.documents
        counts["bytes"] += one.shard.bytes
    for corpus in outcome.corpora:
        kept[corpus.source][corpus.part]["tokens"] = corpus.written["tokens"]
    unit = "tokens" if outcome.corpora else "bytes"
    for part in outcome.recipe.splits.parts:
        given = [parts[part] for parts in kept.values() if part in parts]
        total = sum(counts[unit] for counts in given)
        for counts in given:
            counts["share"] = round(counts[unit] / total, 6)
    return kept


def _splits(outcome: Outcome) -> Values:
    splits: Values = {}
    for part in outcome.recipe.splits.parts:
        of_part = [one for one in outcome.divided if one.part == part]
        splits[part] = {
            "documents": sum(one.shard.documents for one in of_part),
            "bytes": sum(one.shard.bytes for one in of_part),
            "tokens": sum(corpus.written["tokens"] for corpus in outcome.corpora if corpus.part == part),
        }
    return splits
