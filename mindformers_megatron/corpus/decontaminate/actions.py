"""What is done about documents that hold evaluation text."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from mindformers_megatron.corpus.decontaminate.ngram_index import Hits, unique_pairs
from mindformers_megatron.corpus.decontaminate.spans import Spans, document_spans
from mindformers_megatron.errors import ConfigError

Action = Literal["drop", "cut", "report"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ContaminationOptions:
    """How evaluation text is looked for, and what is done about it.

    Attributes:
        action: ``drop`` the document, ``cut`` the text out, or only ``report``.
        ngram: words in an n-gram (characters, in scripts without spaces), 8 to 13 as a rule.
        shortest: see ``NgramIndex``.
        min_ngrams: n-grams that must be found in a document before anything is done.
        margin: characters on both sides that are cut out too (200 in GPT-3).
        common: an n-gram that more training documents than this have is a phrase of the language and no contamination
            (10 in GPT-3); None: every one counts.
    """

    action: Action = "drop"
    ngram: int = 13
    shortest: int = 8
    min_ngrams: int = 1
    margin: int = 0
    common: int | None = None

    def __post_init__(self) -> None:
        if self.action not in ("drop", "cut", "report"):
            raise ConfigError(f"contamination: action {self.action!r}; give 'drop', 'cut' or 'report'")
        for name, least in (("ngram", 1), ("shortest", 1), ("min_ngrams", 1), ("margin", 0)):
            if getattr(self, name) < least:
                raise ConfigError(f"contamination: {name} {getattr(self, name)}; give {least} or more")
        if self.shortest > self.ngram:
            raise ConfigError(f"contamination: shortest {self.shortest} is above ngram {self.ngram}")
        if self.common is not None and self.common < 1:
            raise ConfigError(f"contamination: common {self.common}; give 1 or more, or leave it out")


def counted_hits(hits: Hits, options: ContaminationOptions) -> Hits:
    """Returns the hits in documents that have enough of them.

    Args:
        hits: all of the documents, without those of common n-grams.
        options: the least number of different n-grams.
    """
    if options.min_ngrams == 1:
        return hits
    different = unique_pairs(hits.documents, hits.ngrams)[0]
    documents, counts = np.unique(different, return_counts=True)
    return hits.chosen(np.isin(hits.documents, documents[counts >= options.min_ngrams]))


def treat(
    texts: Sequence[str], hits: Hits, options: ContaminationOptions, *, first_document: int = 0
) -> list[str | None]:
    """Returns the texts as they go on.

    Args:
        texts: neighbouring documents.
        hits: those that count, of these documents.
        options: what is done.
        first_document: the number of the first text.

    Returns:
        For each the text itself, what is left of it, or None where it is dropped (also where nothing is left).
    """
    treated: list[str | None] = list(texts)
    if options.action == "report":
        return treated
    for place in np.unique(hits.documents) - first_document if options.action == "drop" else ():
        treated[place] = None
    if options.action == "cut":
        spans = document_spans(hits, margin=options.margin)
        documents, first = np.unique(spans.documents, return_index=True)
        for document, begin, end in zip(documents, first, [*first[1:], len(spans)], strict=True):
            place = document - first_document
            treated[place] = _cut(texts[place], spans, begin, end) or None
    return treated


def _cut(text: str, spans: Spans, begin: int, end: int) -> str:
    """What is left, as paragraphs: what stood on both sides of a cut does not read on."""
    starts, ends = spans.starts[begin:end].tolist(), spans.ends[begin:end].tolist()
    pieces = [text[first:last].strip() for first, last in zip([0, *ends], [*starts, len(text)], strict=True)]
    return "\n\n".join(filter(None, pieces))
