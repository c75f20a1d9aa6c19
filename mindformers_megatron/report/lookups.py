"""What a served page can ask: the samples of a step, where a document was seen, and the raw record of a document."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from mindformers_megatron.errors import ConfigError
from mindformers_megatron.format.reader import IndexedDataset
from mindformers_megatron.report.steps import StepMap
from mindformers_megatron.report.trace import (
    document_extent,
    find_document,
    origin_of,
    places_of_document,
    trace_samples,
)
from mindformers_megatron.report.viewer import MOST_TOKENS, Viewer, find_file
from mindformers_megatron.sampling.plan import SamplePlan

_MOST_SAMPLES = 64
_MOST_PLACES = 1000
_MOST_BYTES = 1 << 16
# Compressed files and Parquet have no place that can be read without the rest.
_SUFFIXES = (".jsonl", ".json", ".txt", ".md", ".html", ".htm", ".csv", ".tsv")

Plain = dict[str, Any]


def look_up_trace(plan: SamplePlan, steps: StepMap, until: int, viewer: Viewer, query: Mapping[str, str]) -> Plain:
    """Answers ``step`` (and ``rank``), ``sample`` or ``document``.

    Args:
        plan: Of the run.
        steps: Which samples each step was given.
        until: The last step that documents are looked for in.
        viewer: Shows samples.
        query: What is asked.

    Raises:
        ConfigError: For what cannot be asked.
    """
    asked = {name: value.strip() for name, value in query.items() if value.strip()}
    if "document" in asked:
        return {"until": until, "documents": list(_seen(plan, steps, until, asked["document"]))}
    if "sample" in asked:
        places = [steps.place_of(_number(asked, "sample"))]
    elif "step" in asked:
        places = steps.places(_number(asked, "step"))
        if "rank" in asked:
            rank, most = _number(asked, "rank"), max(stretch.ranks for stretch in steps.stretches)
            if rank >= most:
                raise ConfigError(f"rank is {rank}; expected 0 to {most - 1}")
            places = [place for place in places if place.rank == rank]
    else:
        raise ConfigError("nothing is asked for; give a step, a sample or a document")
    shown = places[: max(1, min(_MOST_SAMPLES, MOST_TOKENS // plan.seq_length))]
    traced = trace_samples(plan, np.array([place.sample for place in shown], dtype=np.int64))
    samples = [viewer.sample(one, place) for one, place in zip(traced, shown, strict=True)]
    return {"samples": samples, "count": len(places)}


def look_up_source(
    pairs: Mapping[str, IndexedDataset], roots: tuple[Path, ...], within: Path, query: Mapping[str, str]
) -> Plain:
    """Answers ``corpus`` and ``document`` with the raw record, as far as 64 kB go.

    Args:
        pairs: The corpora, by name.
        roots: Folders that raw files are looked for in.
        within: Files outside of this folder are not shown, whatever provenance names.
        query: What is asked.

    Raises:
        ConfigError: For what cannot be asked, or shown.
    """
    name = query.get("corpus", "")
    if name not in pairs:
        raise ConfigError(f"corpus is {name!r:.80}; expected one of {', '.join(pairs)}")
    number = _number(query, "document")
    document_extent(pairs[name], number)
    origin = origin_of(pairs[name], number)
    if origin is None:
        raise ConfigError(f"{name}: has no docs.parquet that would tell where its documents come from")
    path = find_file(origin["file"], roots)
    if path is None:
        raise ConfigError(f"{origin['file']}: is not there any more")
    if not path.is_relative_to(within.resolve()):
        raise ConfigError(f"{origin['file']}: lies outside of {within}, which is all that is shown")
    if path.suffix.lower() not in _SUFFIXES or origin["byte_offset"] < 0:
        raise ConfigError(f"{origin['file']}: is no plain text whose line {origin['line']} could be shown")
    with path.open("rb") as file:
        file.seek(origin["byte_offset"])
        record = file.readline(_MOST_BYTES)
    return {"file": origin["file"], "line": origin["line"], "text": record.decode("utf-8", "replace")}


def _seen(plan: SamplePlan, steps: StepMap, until: int, wanted: str) -> Iterator[Plain]:
    for name, document in find_document(plan, wanted):
        places = places_of_document(plan, steps, name, document, until)
        seen = [place.to_plain() for place in places[:_MOST_PLACES]]
        yield {"corpus": name, "document": document, "count": len(places), "seen": seen}


def _number(query: Mapping[str, str], name: str) -> int:
    text = query.get(name, "").strip()
    # 15 digits are beyond any run, and within the arithmetic of samples.
    if not (text.isascii() and text.isdigit() and len(text) <= 15):
        raise ConfigError(f"{name} is {text!r:.40}; expected a whole number")
    return int(text)
