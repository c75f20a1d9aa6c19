"""What a step did: documents and bytes in and out, what was dropped and why, and some of it to look at.

Tallies are values that add up. Those of shards, in any order and however the corpus was cut, make the tally of the
whole; for the examples too: they are the ones with the smallest hashes of their ids, wherever they turn up.
"""

import heapq
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import xxhash

from mindformers_megatron.corpus.batch import Batch
from mindformers_megatron.corpus.documents import Document

EXAMPLES = 10
CHANGED = "changed"
_EXCERPT = 400
_LEAD = 80


@dataclass(frozen=True, slots=True)
class Drop:
    """Why a document is dropped.

    Attributes:
        reason: what it is counted under; one of few.
        detail: what was found in this document, against what is asked.
    """

    reason: str
    detail: str = ""


@dataclass(frozen=True, slots=True, order=True)
class Example:
    """A document that was dropped or changed, for people to look at.

    Attributes:
        key: hash of its id and source; the smallest are kept.
        id: its id.
        source: its source.
        file: see ``Origin``.
        line: see ``Origin``.
        detail: see ``Drop``.
        text: from its text; where it was changed: from just before the first difference.
        after: the same place in the new text; None if it was dropped.
    """

    key: int
    id: str
    source: str
    file: str
    line: int
    detail: str
    text: str
    after: str | None = None


@dataclass(slots=True)
class SourceTally:
    """Counts of one source.

    Attributes:
        documents_in: documents that came.
        documents_out: documents that were passed on.
        bytes_in: UTF-8 bytes of the texts that came.
        bytes_out: UTF-8 bytes of the texts passed on.
        changed: documents with another text than before.
        dropped: documents by reason.
        found: what a step counts beside: languages of documents, addresses that were masked.
        lengths: documents passed on by the bit length of their number of characters: those of 512 to 1,023 under 10.
    """

    documents_in: int = 0
    documents_out: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    changed: int = 0
    dropped: Counter[str] = field(default_factory=Counter)
    found: Counter[str] = field(default_factory=Counter)
    lengths: Counter[int] = field(default_factory=Counter)


_COUNTS = ("documents_in", "documents_out", "bytes_in", "bytes_out", "changed")
_COUNTERS = ("dropped", "found", "lengths")


class Tally:
    """What a step did to the documents of a shard, or of many.

    Attributes:
        sources: counts by source.
        examples: by reason of dropping, or ``changed``; at most ``EXAMPLES`` each, in the order of their keys.
    """

    def __init__(self) -> None:
        self.sources: dict[str, SourceTally] = {}
        self.examples: dict[str, list[Example]] = {}

    def of(self, source: str) -> SourceTally:
        """The counts of a source."""
        try:
            return self.sources[source]
        except KeyError:
            return self.sources.setdefault(source, SourceTally())

    def enter(self, batch: Batch) -> None:
        """Counts documents that come."""
        for source, places in batch.places_by_source().items():
            counts = self.of(source)
            counts.documents_in += len(places)
            counts.bytes_in += sum(map(batch.sizes.__getitem__, places))

    def leave(self, batch: Batch) -> None:
        """Counts documents that are passed on."""
        for source, places in batch.places_by_source().items():
            counts = self.of(source)
            counts.documents_out += len(places)
            counts.bytes_out += sum(map(batch.sizes.__getitem__, places))
            counts.lengths.update([len(batch.documents[place].text).bit_length() for place in places])

    def drop(self, document: Document, drop: Drop) -> None:
        """Counts a document that is dropped, and keeps it to look at if its turn has come."""
        self.of(document.source).dropped[drop.reason] += 1
        self._keep(drop.reason, document, drop.detail, None)

    def change(self, document: Document, after: str) -> None:
        """Counts a document whose text is replaced."""
        self.of(document.source).changed += 1
        self._keep(CHANGED, document, "", after)

    def find(self, source: str, what: str, count: int = 1) -> None:
        """Counts something found in a document."""
        self.of(source).found[what] += count

    def add(self, other: "Tally") -> None:
        """Adds another's counts to these, and keeps the examples with the smallest keys of both."""
        for source, counts in other.sources.items():
            ours = self.of(source)
            for name in _COUNTS:
                setattr(ours, name, getattr(ours, name) + getattr(counts, name))
            for name in _COUNTERS:
                getattr(ours, name).update(getattr(counts, name))
        for reason, examples in other.examples.items():
            self.examples[reason] = _smallest([*self.examples.get(reason, ()), *examples])

    def to_json(self) -> dict[str, Any]:
        """JSON values, the same for equal tallies."""
        sources = {}
        for source, counts in sorted(self.sources.items()):
            values: dict[str, Any] = {name: getattr(counts, name) for name in _COUNTS}
            values |= {name: {str(key): n for key, n in sorted(getattr(counts, name).items())} for name in _COUNTERS}
            sources[source] = values
        examples = {reason: [asdict(example) for example in kept] for reason, kept in sorted(self.examples.items())}
        return {"sources": sources, "examples": examples}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> "Tally":
        """The tally that ``to_json`` made these values of."""
        tally = cls()
        for source, counts in values["sources"].items():
            tally.sources[source] = SourceTally(
                **{name: counts[name] for name in _COUNTS},
                dropped=Counter(counts["dropped"]),
                found=Counter(counts["found"]),
                lengths=Counter({int(bits): n for bits, n in counts["lengths"].items()}),
            )
        for reason, kept in values["examples"].items():
            tally.examples[reason] = [Example(**example) for example in kept]
        return tally

    def _keep(self, reason: str, document: Document, detail: str, after: str | None) -> None:
        key = xxhash.xxh3_64_intdigest(f"{document.source}\0{document.id}".encode())
        kept = self.examples.setdefault(reason, [])
        if len(kept) == EXAMPLES and key > kept[-1].key:
            return
        text, start = document.text, 0
        if after is not None:
            start = max(_first_difference(text, after) - _LEAD, 0)
            after = after[start : start + _EXCERPT]
        origin = document.origin
        excerpt = text[start : start + _EXCERPT]
        kept.append(Example(key, document.id, document.source, origin.file, origin.line, detail, excerpt, after))
        self.examples[reason] = _smallest(kept)


def _smallest(examples: Sequence[Example]) -> list[Example]:
    return heapq.nsmallest(EXAMPLES, examples)


def _first_difference(before: str, after: str) -> int:
    low, high = 0, min(len(before), len(after))
    while low < high:
        middle = (low + high + 1) // 2
        if before[:middle] == after[:middle]:
            low = middle
        else:
            high = middle - 1
    return low
