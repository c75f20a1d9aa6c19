"""Samples and documents as the page shows them: plain values, each document with the place it comes from."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from mindformers_megatron.format.paths import docs_path
from mindformers_megatron.format.provenance import read_docs
from mindformers_megatron.format.reader import IndexedDataset
from mindformers_megatron.report.steps import Place, StepMap
from mindformers_megatron.report.token_texts import token_texts
from mindformers_megatron.report.trace import TracedSample, document_extent, trace_samples
from mindformers_megatron.sampling.plan import SamplePlan
from mindformers_megatron.tokenization.decoding import Decoder

# A page of this many tokens is some megabytes, and is open in a second.
MOST_TOKENS = 200_000
_EXCERPT_TOKENS = 64
_EXCERPT_CHARACTERS = 240
# Provenance is read in row groups; so few stretches of it keep the largest corpus to seconds.
_STRETCHES = 16

Plain = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Viewer:
    """Turns samples and documents into what the page shows.

    Attributes:
        decode: Ids to text; None: ids are shown.
        roots: Folders that raw files are looked for in, if their names are relative.
    """

    decode: Decoder | None = None
    roots: tuple[Path, ...] = field(default_factory=lambda: (Path.cwd(),))

    def samples(self, plan: SamplePlan, steps: StepMap, end: int, count: int) -> list[Plain]:
        """Samples of a run, evenly spaced.

        Args:
            plan: Its plan.
            steps: Which samples each step was given.
            end: Behind the last sample to choose from; at least 1.
            count: How many, at most; fewer, where they would be very long together.
        """
        count = max(1, min(count, end, MOST_TOKENS // plan.seq_length))
        first = steps.stretches[0].sample
        numbers = np.unique(np.linspace(first, max(first, end - 1), count).astype(np.int64))
        # Corpora that a resumed run no longer lists cannot be read.
        corpora = plan.locate(numbers)[0]
        numbers = numbers[np.isin(corpora, [plan.names.index(name) for name in plan.corpora])]
        return [self.sample(traced, steps.place_of(traced.sample)) for traced in trace_samples(plan, numbers)]

    def sample(self, traced: TracedSample, place: Place) -> Plain:
        """A sample, with its place in the run."""
        ids = traced.tokens.tolist()
        texts: list[str] | None = None
        documents = []
        for part in traced.parts:
            if self.decode is not None:
                # Apart, because a document does not go on in the text of the next.
                texts = texts or [""] * len(ids)
                own = slice(part.column, part.column + part.length)
                texts[own] = token_texts(self.decode, ids[own])
            documents.append(
                {
                    "number": part.document,
                    "column": part.column,
                    "length": part.length,
                    "skipped": part.skipped,
                    "total": part.total,
                    **self._origin(part.origin),
                }
            )
        return {
            **place.to_plain(),
            "corpus": traced.corpus,
            "epoch": traced.epoch,
            "cursor": traced.cursor,
            "ids": ids,
            "texts": texts,
            "loss": traced.columns["loss_mask"].tolist(),
            "positions": traced.columns["position_ids"].tolist(),
            "documents": documents,
        }

    def documents(self, corpora: Sequence[tuple[str, IndexedDataset]], count: int) -> list[Plain]:
        """Documents of several corpora, in evenly spaced stretches, in proportion to what each holds.

        Args:
            corpora: (name, pair).
            count: How many in all; at least one of each corpus that has any.
        """
        total = sum(dataset.num_documents for _, dataset in corpora)
        shown = []
        for name, dataset in corpora:
            own = min(dataset.num_documents, max(1, round(count * dataset.num_documents / max(1, total))))
            for number, origin in _origins(dataset, own):
                begin, end = document_extent(dataset, number)
                shown.append(
                    {
                        "corpus": name,
                        "number": number,
                        "tokens": end - begin,
                        "text": self._excerpt(dataset, begin, end),
                        **self._origin(origin),
                    }
                )
        return shown

    def _excerpt(self, dataset: IndexedDataset, begin: int, end: int) -> str:
        ids = dataset.tokens(begin, min(end - begin, _EXCERPT_TOKENS)).tolist()
        text = " ".join(map(str, ids)) if self.decode is None else self.decode(ids)
        return text[:_EXCERPT_CHARACTERS]

    def _origin(self, origin: Plain | None) -> Plain:
        if origin is None:
            return {}
        plain = {name: origin[name] for name in ("id", "source", "line")}
        plain["file"] = shortened(origin["file"], self.roots)
        address = file_address(origin["file"], self.roots)
        return plain if address is None else {**plain, "address": address}


def shortened(name: str, roots: tuple[Path, ...]) -> str:
    """A file's name as seen from the first of the folders that holds it; unchanged, if none does."""
    for root in roots:
        if Path(name).is_absolute() and Path(name).is_relative_to(root.absolute()):
            return str(Path(name).relative_to(root.absolute()))
    return name


def file_address(name: str, roots: tuple[Path, ...]) -> str | None:
    """The ``file:`` address of a raw file, named as provenance names it; None if it is not there any more."""
    path = find_file(name, roots)
    return None if path is None else path.as_uri()


@cache
def find_file(name: str, roots: tuple[Path, ...]) -> Path | None:
    """The raw file of a name: absolute, or in one of the folders; None if there is none."""
    for root in roots:
        try:
            path = (root / name).resolve()
            if path.is_file():
                return path
        except (OSError, ValueError):  # too long a name, or a NUL in it
            continue
    return None


def _origins(dataset: IndexedDataset, count: int) -> Iterator[tuple[int, Plain | None]]:
    """Chosen documents with what provenance says of each."""
    for first, last in _stretches(dataset.num_documents, count):
        if not docs_path(dataset.prefix).exists():
            yield from ((number, None) for number in range(first, last))
            continue
        number = first
        for batch in read_docs(dataset.prefix, first, last):
            for row in batch.to_pylist():
                yield number, row
                number += 1


def _stretches(total: int, count: int) -> Iterator[tuple[int, int]]:
    stretches = min(_STRETCHES, count)
    for place in range(stretches):
        first = place * total // stretches
        size = (place + 1) * count // stretches - place * count // stretches
        yield first, min(first + size, total)
