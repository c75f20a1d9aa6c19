"""The step ``length``: documents that are too short or too long, in characters or tokens."""

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np

from mindformers_megatron.corpus.batch import Batch
from mindformers_megatron.corpus.filters.bounds import Bound, judge
from mindformers_megatron.corpus.filters.tokens import count_tokens, tokenizer_files
from mindformers_megatron.corpus.steps import sift
from mindformers_megatron.corpus.tally import Tally
from mindformers_megatron.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class Length:
    """Drops documents by their length.

    Attributes:
        min_characters: at least; null: no limit.
        max_characters: at most.
        min_tokens: at least, of ``tokenizer``.
        max_tokens: at most.
        tokenizer: a folder or file as for ``mfm preprocess --tokenizer``; needed for limits in tokens.
    """

    name: ClassVar[str] = "length"
    version: ClassVar[int] = 1

    min_characters: int | None = None
    max_characters: int | None = None
    min_tokens: int | None = None
    max_tokens: int | None = None
    tokenizer: str | None = None

    def __post_init__(self) -> None:
        limits = {
            "characters": (self.min_characters, self.max_characters),
            "tokens": (self.min_tokens, self.max_tokens),
        }
        if all(limit is None for pair in limits.values() for limit in pair):
            raise ConfigError("no limit given; give min_characters, max_characters, min_tokens or max_tokens")
        for unit, (least, most) in limits.items():
            if least is not None and most is not None and least > most:
                raise ConfigError(f"min_{unit} is {least:,}, max_{unit} {most:,}; no document can pass")
        if self._in_tokens and self.tokenizer is None:
            raise ConfigError("min_tokens and max_tokens need a tokenizer")

    @property
    def _in_tokens(self) -> bool:
        return self.min_tokens is not None or self.max_tokens is not None

    @property
    def files(self) -> tuple[Path, ...]:
        """What else the result depends on."""
        return tokenizer_files(self.tokenizer) if self.tokenizer else ()

    def apply(self, batch: Batch, tally: Tally) -> Batch:
        """See ``Step.apply``."""
        characters = np.fromiter(map(len, batch.texts), np.int64, len(batch))
        batch = _limited(batch, characters, "characters", self.min_characters, self.max_characters, tally)
        if batch and self.tokenizer and self._in_tokens:
            tokens = count_tokens(self.tokenizer, batch.texts)
            batch = _limited(batch, tokens, "tokens", self.min_tokens, self.max_tokens, tally)
        return batch


def _limited(
    batch: Batch,
    sizes: "np.ndarray[tuple[int], np.dtype[np.int64]]",
    unit: str,
    least: int | None,
    most: int | None,
    tally: Tally,
) -> Batch:
    bounds = []
    if least is not None:
        bounds.append(Bound(f"too few {unit}", sizes, least=least))
    if most is not None:
        bounds.append(Bound(f"too many {unit}", sizes, most=most))
    return sift(batch, judge(bounds, len(batch)), tally)
