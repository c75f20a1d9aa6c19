"""What the preparation of a corpus left behind for people to look at: ``data_stats.json``, read."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from mindformers_megatron.errors import DataError
from mindformers_megatron.report.left_file import read_left_file

NAME = "data_stats.json"
DECONTAMINATE, NEAR, EXACT = "decontaminate", "near_dedup", "exact_dedup"

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Excerpt:
    """A document, as far as it is shown.

    Attributes:
        id: Its id.
        source: Its source.
        file: The raw file.
        line: Of the raw file, from 1.
        text: Of its text.
        detail: What was found in it; empty where that is told by the reason alone.
        after: The same place behind a step that changed it; None if it did not.
    """

    id: str
    source: str
    file: str
    line: int
    text: str
    detail: str = ""
    after: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceCounts:
    """What a step did to one source; see ``corpus.tally.SourceTally``."""

    documents_in: int
    documents_out: int
    bytes_in: int
    bytes_out: int
    changed: int
    dropped: Mapping[str, int]
    found: Mapping[str, int]
    lengths: Mapping[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class StepReport:
    """A step of the preparation.

    Attributes:
        name: Of the step.
        sources: Its counts, by source.
        examples: Documents that it dropped, by reason, or ``changed``.
    """

    name: str
    sources: Mapping[str, SourceCounts]
    examples: Mapping[str, tuple[Excerpt, ...]]

    def total(self, count: str) -> int:
        """``documents_in``, ``documents_out``, ``bytes_in``, ``bytes_out`` or ``changed`` over all sources."""
        return sum(getattr(counts, count) for counts in self.sources.values())

    @property
    def dropped(self) -> Counter[str]:
        """Documents by reason over all sources."""
        return sum((Counter(counts.dropped) for counts in self.sources.values()), Counter())


@dataclass(frozen=True, slots=True, kw_only=True)
class Copy:
    """A document that was dropped for another one.

    Attributes:
        document: What was dropped.
        similarity: To the one that was kept, 0 to 1.
    """

    document: Excerpt
    similarity: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """Documents that resemble each other.

    Attributes:
        size: How many they are.
        kept: The one that was kept.
        copies: Some of the others.
    """

    size: int
    kept: Excerpt
    copies: tuple[Copy, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundItem:
    """An evaluation item of which something was found.

    Attributes:
        set_name: Its set.
        item: Its name.
        ngrams: It has so many.
        ngrams_found: So many of these stand in the corpus.
        documents: In so many documents.
    """

    set_name: str
    item: str
    ngrams: int
    ngrams_found: int
    documents: int


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationSet:
    """What was found of an evaluation set; see ``corpus.decontaminate.report``."""

    name: str
    items: int
    searched: int
    found: int
    whole: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundSpan:
    """A stretch of a document that is an evaluation item's.

    Attributes:
        set_name: The evaluation set.
        item: The item.
        document: The document, its text beginning somewhat before the stretch.
        start: First character of the stretch in that text.
        end: Behind its last one.
    """

    set_name: str
    item: str
    document: Excerpt
    start: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GlobalStep:
    """A step over the whole corpus.

    Attributes:
        name: Of its stage, and of the table of what it found.
        kind: ``exact_dedup``, ``near_dedup`` or ``decontaminate``.
        before: The stage whose documents it looked at.
        counts: What it counted, by name; see docs/corpus.md.
    """

    name: str
    kind: str
    before: str
    counts: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A prepared corpus.

    Attributes:
        name: Of the folder it fills.
        steps: In the order in which documents went through them.
        global_steps: Those over the whole corpus, in order.
        rejects: Records that could not be read, by source.
        languages: Documents kept, by source and language.
        sets: Evaluation sets that were looked for.
        items: Evaluation items of which the most was found.
        clusters: Of duplicates, some to look at.
        spans: Where some evaluation items were found.
    """

    name: str
    steps: tuple[StepReport, ...]
    global_steps: tuple[GlobalStep, ...] = ()
    rejects: Mapping[str, int] = field(default_factory=dict)
    languages: Mapping[str, Counter[str]] = field(default_factory=dict)
    sets: tuple[EvaluationSet, ...] = ()
    items: tuple[FoundItem, ...] = ()
    clusters: tuple[Cluster, ...] = ()
    spans: tuple[FoundSpan, ...] = ()

    @property
    def sources(self) -> list[str]:
        """All sources, in the order in which they turn up."""
        return list(dict.fromkeys(name for step in self.steps for name in step.sources))


def read_prepared(path: Path) -> Prepared:
    """Reads ``data_stats.json``.

    Args:
        path: The file.

    Raises:
        DataError: One line, for a file that cannot be read, is none of these, or lacks a field.
    """
    text = read_left_file(path, NAME)
    try:
        return _prepared(json.loads(text))
    except KeyError as error:
        raise DataError(f"{path}: no field {error} where one is expected; make it again with mfm prepare") from None
    except (AttributeError, TypeError, ValueError, RecursionError) as error:
        raise DataError(f"{path}: not what mfm prepare writes ({error}); make it again") from None


def _prepared(values: Any) -> Prepared:
    stages = list(dict.fromkeys(_typed(step["stage"], str) for step in values["steps"]))
    found = values.get("global_steps") or ()
    searches = [step for step in found if step["kind"] == DECONTAMINATE]
    return Prepared(
        name=_typed(values["name"], str),
        steps=tuple(_step(step) for step in values["steps"]),
        global_steps=tuple(_global_step(step, stages) for step in found),
        rejects={str(name): _typed(one["rejected_records"], int) for name, one in values["sources"].items()},
        languages={str(name): Counter(_counts(counts)) for name, counts in (values.get("languages") or {}).items()},
        sets=tuple(_set(one) for step in searches for one in step["sets"]),
        items=tuple(_item(one) for step in searches for one in step["items"]),
    )


def _step(values: Mapping[str, Any]) -> StepReport:
    return StepReport(
        name=_typed(values["step"], str),
        sources={str(source): _source(counts) for source, counts in values["sources"].items()},
        examples={
            str(reason): tuple(_excerpt(example) for example in examples)
            for reason, examples in (values.get("examples") or {}).items()
        },
    )


def _source(values: Mapping[str, Any]) -> SourceCounts:
    return SourceCounts(
        **{name: _typed(values[name], int) for name in ("documents_in", "documents_out", "bytes_in", "bytes_out")},
        changed=_typed(values.get("changed", 0), int),
        dropped=_counts(values.get("dropped") or {}),
        found=_counts(values.get("found") or {}),
        lengths={int(bits): count for bits, count in _counts(values.get("lengths") or {}).items()},
    )


def _excerpt(values: Mapping[str, Any]) -> Excerpt:
    after = values.get("after")
    return Excerpt(
        **{name: _typed(values[name], str) for name in ("id", "source", "file", "text")},
        line=_typed(values["line"], int),
        detail=_typed(values.get("detail", ""), str),
        after=None if after is None else _typed(after, str),
    )


def _global_step(values: Mapping[str, Any], stages: Sequence[str]) -> GlobalStep:
    name = _typed(values["step"], str)
    return GlobalStep(
        name=name,
        kind=_typed(values["kind"], str),
        before=stages[max(stages.index(name) - 1, 0)],
        counts={str(key): value for key, value in values.items() if type(value) is int},
    )


def _set(values: Mapping[str, Any]) -> EvaluationSet:
    counts = {name: _typed(values[name], int) for name in ("items", "searched", "found", "whole")}
    return EvaluationSet(name=_typed(values["name"], str), **counts)


def _item(values: Mapping[str, Any]) -> FoundItem:
    counts = {name: _typed(values[name], int) for name in ("ngrams", "ngrams_found", "documents")}
    return FoundItem(set_name=_typed(values["set"], str), item=_typed(values["item"], str), **counts)


def _counts(values: Mapping[str, Any]) -> dict[str, int]:
    return {str(name): _typed(count, int) for name, count in values.items()}


def _typed(value: Any, kind: type[T]) -> T:
    if isinstance(value, bool) or not isinstance(value, kind):
        raise TypeError(f"{value!r:.40} is {type(value).__name__}, expected {kind.__name__}")
    return value
