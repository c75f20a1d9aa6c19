"""How tokenizers do on texts, by source and language."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mindformers_megatron.tokenization.evaluation.codecs import Codec

_SHOWN_BEFORE, _SHOWN_BEHIND = 8, 16


@dataclass(frozen=True, slots=True)
class LabelledText:
    """A text and what it is counted under.

    Attributes:
        text: the text.
        source: where it is from.
        language: what it is in.
        words: how many it has.
        bytes: in UTF-8.
    """

    text: str
    source: str
    language: str
    words: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Failure:
    """A text that does not come back from its ids.

    Attributes:
        source: where it is from.
        position: the first character that differs.
        text: the text from a little before there on.
        decoded: the same of what came back.
    """

    source: str
    position: int
    text: str
    decoded: str


@dataclass(slots=True)
class Measures:
    """Counts over some texts, and what follows from them.

    Attributes:
        texts: how many.
        bytes: of them, in UTF-8.
        characters: of them.
        words: of them.
        tokens: that they became.
        unknown: tokens that stand for text that has none.
        failures: texts that did not come back.
        example: the first of these.
    """

    texts: int = 0
    bytes: int = 0
    characters: int = 0
    words: int = 0
    tokens: int = 0
    unknown: int = 0
    failures: int = 0
    example: Failure | None = None

    @property
    def bytes_per_token(self) -> float:
        """Compression: the more, the fewer tokens a corpus has."""
        return self.bytes / self.tokens if self.tokens else 0.0

    @property
    def tokens_per_word(self) -> float:
        """Fertility: 1 would be a vocabulary of whole words."""
        return self.tokens / self.words if self.words else 0.0

    @property
    def tokens_per_character(self) -> float:
        """What fertility is for scripts without spaces between words."""
        return self.tokens / self.characters if self.characters else 0.0

    @property
    def unknown_rate(self) -> float:
        """Share of the tokens that say nothing."""
        return self.unknown / self.tokens if self.tokens else 0.0

    def add(self, other: "Measures") -> None:
        """Takes in the counts of other texts."""
        for name in ("texts", "bytes", "characters", "words", "tokens", "unknown", "failures"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.example = self.example or other.example

    def to_json(self) -> dict[str, Any]:
        """Counts and rates."""
        example = self.example
        return {
            **{name: getattr(self, name) for name in ("texts", "bytes", "characters", "words", "tokens", "unknown")},
            "bytes_per_token": round(self.bytes_per_token, 4),
            "tokens_per_word": round(self.tokens_per_word, 4),
            "tokens_per_character": round(self.tokens_per_character, 4),
            "unknown_rate": round(self.unknown_rate, 6),
            "round_trip_failures": self.failures,
            "round_trip_example": None
            if example is None
            else {
                "source": example.source,
                "position": example.position,
                "text": example.text,
                "decoded": example.decoded,
            },
        }


@dataclass(frozen=True, slots=True)
class Evaluation:
    """One tokenizer, measured.

    Attributes:
        codec: the tokenizer.
        groups: by (source, language), in the order in which they were met.
    """

    codec: Codec
    groups: dict[tuple[str, str], Measures]

    def total(self, *, source: str | None = None, language: str | None = None) -> Measures:
        """All texts, or those of a source or language."""
        total = Measures()
        for (of_source, of_language), measures in self.groups.items():
            if source in (None, of_source) and language in (None, of_language):
                total.add(measures)
        return total

    @property
    def sources(self) -> list[str]:
        """Sources, in the order in which they were met."""
        return list(dict.fromkeys(source for source, _ in self.groups))

    @property
    def languages(self) -> list[str]:
        """Languages, likewise."""
        return list(dict.fromkeys(language for _, language in self.groups))

    def embedding_parameters(self, hidden_size: int) -> int:
        """Weights of a table with a row for each id; a model whose output layer is not tied to it has two."""
        return self.codec.vocab_size * hidden_size


def evaluate(codecs: Sequence[Codec], batches: Iterable[Sequence[LabelledText]]) -> list[Evaluation]:
    """Measures tokenizers on the same texts, each of which is read once.

    Args:
        codecs: the tokenizers.
        batches: the texts, some at a time; memory is that of a batch.

    Returns:
        One evaluation per tokenizer, in the order given.
    """
    evaluations = [Evaluation(codec, {}) for codec in codecs]
    for batch in batches:
        for evaluation in evaluations:
            for label, measures in _measure(evaluation.codec, batch):
                evaluation.groups.setdefault(label, Measures()).add(measures)
    return evaluations


def _measure(codec: Codec, batch: Sequence[LabelledText]) -> Iterator[tuple[tuple[str, str], Measures]]:
    ids, lengths = codec.encode([labelled.text for labelled in batch])
    stops = np.cumsum(lengths)
    per_text = [of_text.tolist() for of_text in np.split(ids, stops[:-1])] if batch else []
    for labelled, of_text, decoded in zip(batch, per_text, codec.decode(per_text), strict=True):
        failed = decoded != labelled.text
        unknown = 0 if codec.unknown_id is None else of_text.count(codec.unknown_id)
        yield (
            (labelled.source, labelled.language),
            Measures(
                texts=1,
                bytes=labelled.bytes,
                characters=len(labelled.text),
                words=labelled.words,
                tokens=len(of_text),
                unknown=unknown,
                failures=int(failed),
                example=_failure(labelled, decoded) if failed else None,
            ),
        )


def _failure(labelled: LabelledText, decoded: str) -> Failure:
    text = labelled.text
    position = next(
        (i for i, (a, b) in enumerate(zip(text, decoded, strict=False)) if a != b), min(len(text), len(decoded))
    )
    window = slice(max(position - _SHOWN_BEFORE, 0), position + _SHOWN_BEHIND)
    return Failure(labelled.source, position, text[window], decoded[window])
