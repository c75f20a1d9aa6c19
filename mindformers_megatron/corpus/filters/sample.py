"""The step ``sample``: a share of the documents, the same ones every time."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import xxhash

from mindformers_megatron.corpus.batch import Batch
from mindformers_megatron.corpus.documents import Document
from mindformers_megatron.corpus.steps import sift
from mindformers_megatron.corpus.tally import Drop, Tally
from mindformers_megatron.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """Keeps each document with a given probability, drawn from its id, whatever its place and the other documents.

    A larger share keeps all that a smaller one keeps, with the same seed.

    Attributes:
        share: of documents that are kept.
        by: field by which the share differs: ``source``, or one of ``meta``, as ``meta.category``.
        shares: by value of that field; others have ``share``.
        seed: another one keeps others.
    """

    name: ClassVar[str] = "sample"
    version: ClassVar[int] = 1

    share: float = 1.0
    by: str | None = None
    shares: Mapping[str, float] = field(default_factory=dict)
    seed: int = 0

    def __post_init__(self) -> None:
        for share in (self.share, *self.shares.values()):
            if not 0 <= share <= 1:
                raise ConfigError(f"a share is {share}; give 0 to 1")
        if bool(self.shares) != (self.by is not None):
            raise ConfigError("by and shares go together; give both or neither")
        if self.by is not None and self.by != "source" and not self.by.startswith("meta."):
            raise ConfigError(f"by is {self.by!r}; expected source or a field of meta, as meta.category")

    def apply(self, batch: Batch, tally: Tally) -> Batch:
        """See ``Step.apply``."""
        drops = [None if self._keeps(document) else Drop("not sampled") for document in batch.documents]
        return sift(batch, drops, tally)

    def _keeps(self, document: Document) -> bool:
        drawn = xxhash.xxh3_64_intdigest(f"{document.source}\0{document.id}".encode(), self.seed)
        return drawn < self._share(document) * 2**64

    def _share(self, document: Document) -> float:
        if self.by is None:
            return self.share
        value: Any = document.source
        if self.by != "source":
            value = document.meta
            for key in self.by.split(".")[1:]:
                value = value.get(key) if isinstance(value, Mapping) else None
        return self.shares.get(str(value), self.share)
