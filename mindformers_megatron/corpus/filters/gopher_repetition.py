"""The step ``gopher_repetition``: the repetition rules of Gopher, and their like for Chinese and Japanese.

Rae et al., "Scaling Language Models: Methods, Analysis & Insights from Training Gopher" (2021), table A1. The numbers
for spaced scripts are the paper's. In scripts without spaces n counts characters: twice as many for the same threshold.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from mindformers_megatron.corpus.batch import Batch
from mindformers_megatron.corpus.filters.bounds import Bound, judge
from mindformers_megatron.corpus.measures import lines, repeats, signs
from mindformers_megatron.corpus.steps import sift
from mindformers_megatron.corpus.tally import Tally
from mindformers_megatron.errors import ConfigError

_TOP = {2: 0.20, 3: 0.18, 4: 0.16}
_REPEATED = {5: 0.15, 6: 0.14, 7: 0.13, 8: 0.12, 9: 0.11, 10: 0.10}
_LONGEST = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class UnspacedRepetition:
    """The n-gram rules for documents most words of which are characters of a script without spaces.

    Attributes:
        top_ngrams: by n, the share of characters that the most frequent n-gram may take.
        repeated_ngrams: by n, the share of characters that may be in n-grams that were there before.
    """

    top_ngrams: Mapping[int, float] = field(default_factory=lambda: {2 * n: share for n, share in _TOP.items()})
    repeated_ngrams: Mapping[int, float] = field(
        default_factory=lambda: {2 * n: share for n, share in _REPEATED.items()}
    )

    def __post_init__(self) -> None:
        _check(self.top_ngrams, self.repeated_ngrams)


@dataclass(frozen=True, slots=True, kw_only=True)
class GopherRepetition:
    """Drops what repeats itself: lists of the same, menus, loops of a generator.

    Attributes:
        max_repeated_lines: share of lines that were there before.
        max_repeated_line_characters: share of their characters.
        max_repeated_paragraphs: share of paragraphs that were there before.
        max_repeated_paragraph_characters: share of their characters.
        top_ngrams: by n, the share of characters that the most frequent n-gram of words may take.
        repeated_ngrams: by n, the share of characters that may be in n-grams that were there before.
        unspaced: the n-gram rules for Chinese, Japanese and other scripts without spaces; null: none for them.
    """

    name: ClassVar[str] = "gopher_repetition"
    version: ClassVar[int] = 1

    max_repeated_lines: float = 0.30
    max_repeated_line_characters: float = 0.20
    max_repeated_paragraphs: float = 0.30
    max_repeated_paragraph_characters: float = 0.20
    top_ngrams: Mapping[int, float] = field(default_factory=_TOP.copy)
    repeated_ngrams: Mapping[int, float] = field(default_factory=_REPEATED.copy)
    unspaced: UnspacedRepetition | None = field(default_factory=UnspacedRepetition)

    def __post_init__(self) -> None:
        _check(self.top_ngrams, self.repeated_ngrams)

    def apply(self, batch: Batch, tally: Tally) -> Batch:
        """See ``Step.apply``."""
        return sift(batch, judge(self._bounds(batch), len(batch)), tally)

    def _bounds(self, batch: Batch) -> Iterator[Bound]:
        by_line, by_paragraph = batch.of(lines.repeated_lines), batch.of(lines.repeated_paragraphs)
        yield Bound("repeated lines", by_line[:, 0], most=self.max_repeated_lines)
        yield Bound("repeated lines, by characters", by_line[:, 1], most=self.max_repeated_line_characters)
        yield Bound("repeated paragraphs", by_paragraph[:, 0], most=self.max_repeated_paragraphs)
        yield Bound(
            "repeated paragraphs, by characters", by_paragraph[:, 1], most=self.max_repeated_paragraph_characters
        )
        unspaced = batch.of(signs.are_cjk)
        rules = [] if unspaced.all() else [(self.top_ngrams, self.repeated_ngrams, ~unspaced)]
        if self.unspaced and unspaced.any():
            rules.append((self.unspaced.top_ngrams, self.unspaced.repeated_ngrams, unspaced))
        longest = max((n for top, repeated, _ in rules for n in (*top, *repeated)), default=2)
        for top, repeated, among in rules:
            yield from _ngram_bounds(batch, top, repeated, longest, among)


def _ngram_bounds(
    batch: Batch, top: Mapping[int, float], repeated: Mapping[int, float], longest: int, among: NDArray[np.bool_]
) -> Iterator[Bound]:
    if sizes := tuple(sorted(top)):
        shares = batch.of(repeats.top_shares(sizes, longest))
        for column, n in enumerate(sizes):
            yield Bound(f"one {n}-gram too often", shares[:, column], most=top[n], among=among)
    if sizes := tuple(sorted(repeated)):
        shares = batch.of(repeats.repeated_shares(sizes, longest))
        for column, n in enumerate(sizes):
            yield Bound(f"repeated {n}-grams", shares[:, column], most=repeated[n], among=among)


def _check(*limits: Mapping[int, float]) -> None:
    for by_n in limits:
        for n in by_n:
            if not 2 <= n <= _LONGEST:
                raise ConfigError(f"an n-gram has n = {n}; give 2 to {_LONGEST}")
