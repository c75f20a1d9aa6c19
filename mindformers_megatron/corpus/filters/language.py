"""The step ``language``."""

from dataclasses import dataclass
from typing import ClassVar

from mindformers_megatron.corpus.batch import Batch
from mindformers_megatron.corpus.languages import identify
from mindformers_megatron.corpus.steps import sift
from mindformers_megatron.corpus.tally import Drop, Tally
from mindformers_megatron.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class Language:
    """Tells the language of each document, counts it, and drops those in others than asked.

    Attributes:
        keep: languages by ISO 639 code (``zh``, ``en``); empty: all, they are only counted.
        min_score: probability of the language, at least; FineWeb asks for 0.65.
    """

    name: ClassVar[str] = "language"
    version: ClassVar[int] = 1

    keep: tuple[str, ...] = ()
    min_score: float = 0.65

    def __post_init__(self) -> None:
        if not 0 <= self.min_score <= 1:
            raise ConfigError(f"min_score is {self.min_score}; give 0 to 1")
        for language in self.keep:
            if not (language.isascii() and language.islower() and 2 <= len(language) <= 3):
                raise ConfigError(f"keep has {language!r}; expected ISO 639 codes, such as zh, en, ja")

    def apply(self, batch: Batch, tally: Tally) -> Batch:
        """See ``Step.apply``."""
        drops: list[Drop | None] = []
        for document, (language, score) in zip(batch.documents, identify(batch.texts), strict=True):
            tally.find(document.source, language)
            if self.keep and language not in self.keep:
                drops.append(Drop("other language", f"{language} ({score:.2f})"))
            elif self.keep and score < self.min_score:
                drops.append(Drop("language not clear", f"{language} ({score:.2f} where {self.min_score:g} is asked)"))
            else:
                drops.append(None)
        return sift(batch, drops, tally)
