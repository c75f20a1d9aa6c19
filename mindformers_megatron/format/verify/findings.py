"""What is found to be wrong with a pair."""

from dataclasses import asdict, dataclass
from typing import Any, Literal

from mindformers_megatron.format.verify.spans import Spans, size_of

# Of each kind so many findings are told; all others are only counted.
SHOWN = 20
_RANGES_SHOWN = 1000

# file: it cannot be opened; size: .bin is longer or shorter than the index says; dtype: the tokens are of another type
# or byte order; pointer, length, boundary: an entry of the index; id, eod: a token; source: tokens that differ from
# those of the raw text; checksum, metadata, provenance: the pair and what stands beside it contradict each other.
Kind = Literal[
    "file",
    "size",
    "dtype",
    "pointer",
    "length",
    "boundary",
    "id",
    "eod",
    "source",
    "checksum",
    "metadata",
    "provenance",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that is wrong. What is not known, or has no place, is None.

    Attributes:
        kind: which sort of damage.
        message: one line: what was found and what was expected.
        document: the first document that is damaged by it.
        last_document: the last of them; they follow each other.
        sequence: the first sequence.
        token: position within the document.
        byte: position in ``.bin``.
        source: the raw record that the document was made from, as ``file:line``.
        id: the record's own id.
    """

    kind: Kind
    message: str
    document: int | None = None
    last_document: int | None = None
    sequence: int | None = None
    token: int | None = None
    byte: int | None = None
    source: str | None = None
    id: str | None = None

    def to_json(self) -> dict[str, Any]:
        """JSON values; only what is known."""
        return {name: value for name, value in asdict(self).items() if value is not None}

    def __str__(self) -> str:
        if self.document is None:
            return f"{self.kind}: {self.message}"
        places = [f"document {self.document:,}"]
        if self.last_document is not None and self.last_document > self.document:
            places = [f"documents {self.document:,} to {self.last_document:,}"]
        for name in ("sequence", "token", "byte"):
            if (value := getattr(self, name)) is not None:
                places.append(f"{name} {value:,}")
        if self.source is not None:
            places.append(self.source if self.id is None else f"{self.source} (id {self.id})")
        return f"{self.kind}: {', '.join(places)}: {self.message}"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Verdict:
    """What is known about a pair after looking at it.

    Attributes:
        prefix: path of the pair without suffix.
        full: whether all of it was read, or only what takes the same time for every pair.
        dtype: type of the tokens as the index names it; None if it cannot be read, like the counts.
        documents: how many the index has.
        sequences: likewise.
        tokens: likewise.
        findings: what is wrong; of each kind the first few.
        counts: how many there are of each kind.
        damaged: the documents that are damaged.
        readable: whether all documents that are not damaged have a certain place.
        located: whether the damaged documents explain everything that is wrong, so that the pair is sound without them.
        notes: what could not be looked at, and why; what is odd and no damage.
    """

    prefix: str
    full: bool
    dtype: str | None
    documents: int | None
    sequences: int | None
    tokens: int | None
    findings: tuple[Finding, ...]
    counts: dict[Kind, int]
    damaged: Spans
    readable: bool
    located: bool
    notes: tuple[str, ...]

    @property
    def sound(self) -> bool:
        """Nothing was found to be wrong."""
        return not self.counts

    def to_json(self) -> dict[str, Any]:
        """JSON values. Of the damaged documents the first thousand ranges ``[begin, end)``."""
        return {
            "prefix": self.prefix,
            "sound": self.sound,
            "full": self.full,
            "dtype": self.dtype,
            "documents": self.documents,
            "sequences": self.sequences,
            "tokens": self.tokens,
            "counts": dict(self.counts),
            "findings": [finding.to_json() for finding in self.findings],
            "damaged_documents": size_of(self.damaged),
            "damaged": self.damaged[:_RANGES_SHOWN].tolist(),
            "located": self.located,
            "notes": list(self.notes),
        }
