"""What is counted while a corpus is tokenized."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

OTHER_SOURCES = "(others)"
_MOST_SOURCES = 1000
_SUMS = ("lines", "blanks", "rejects", "documents", "tokens", "special_tokens", "audited", "referred")


@dataclass(slots=True)
class Counts:
    """What was found in a part, or in many.

    Attributes:
        lines: all of them.
        blanks: lines of white space, which are nothing.
        rejects: lines that are no records.
        documents: records.
        tokens: under all keys together.
        special_tokens: those of them that stood in a text by name.
        audited: texts that a fast engine and the reference both encoded.
        referred: texts that were left to the reference.
        documents_of: documents by source.
        tokens_of: tokens by source, under all keys together.
    """

    lines: int = 0
    blanks: int = 0
    rejects: int = 0
    documents: int = 0
    tokens: int = 0
    special_tokens: int = 0
    audited: int = 0
    referred: int = 0
    documents_of: Counter[str] = field(default_factory=Counter)
    tokens_of: Counter[str] = field(default_factory=Counter)

    def add(self, other: "Counts") -> None:
        """Adds another's counts to these. Sources beyond the first thousand are counted as one."""
        for name in _SUMS:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        for source, documents in other.documents_of.items():
            # Where each record names a source of its own, counting them all would take memory without end.
            known = source in self.documents_of or len(self.documents_of) < _MOST_SOURCES
            kept = source if known else OTHER_SOURCES
            self.documents_of[kept] += documents
            self.tokens_of[kept] += other.tokens_of[source]

    def to_json(self) -> dict[str, Any]:
        """JSON values."""
        # Not dataclasses.asdict: it makes counters of a counter's items.
        sums = {name: getattr(self, name) for name in _SUMS}
        return {**sums, "documents_of": dict(self.documents_of), "tokens_of": dict(self.tokens_of)}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> "Counts":
        """Reads what ``to_json`` wrote."""
        sums = {name: int(values[name]) for name in _SUMS}
        return cls(**sums, documents_of=Counter(values["documents_of"]), tokens_of=Counter(values["tokens_of"]))


@dataclass(frozen=True, slots=True)
class Advance:
    """What a worker has got done since it said so last.

    Attributes:
        bytes: of input, as it lies on disk.
        documents: documents.
        tokens: tokens.
    """

    bytes: int
    documents: int
    tokens: int
