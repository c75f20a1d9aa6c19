"""The step ``gopher_quality``: the quality rules of Gopher, and their like for Chinese and Japanese.

Rae et al., "Scaling Language Models: Methods, Analysis & Insights from Training Gopher" (2021), appendix A.1.1. The
numbers for spaced scripts are the paper's. Those for scripts without spaces follow from them, at 1.5 characters a word;
what they have no counterpart for is left out.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from mindformers_megatron.corpus.batch import Batch
from mindformers_megatron.corpus.filters.bounds import Bound, judge
from mindformers_megatron.corpus.measures import lines, signs, texts
from mindformers_megatron.corpus.steps import sift
from mindformers_megatron.corpus.tally import Tally

_ENGLISH = ("the", "be", "to", "of", "and", "that", "have", "with")
_CHINESE_AND_JAPANESE = tuple("的了是在和有不这這我也就" + "のにはをたがでてとしも")


@dataclass(frozen=True, slots=True, kw_only=True)
class UnspacedQuality:
    """The rules for documents most words of which are characters of a script without spaces.

    Attributes:
        min_words: characters and words, at least.
        max_words: at most.
        max_symbol_ratio: ``#`` and ellipses for each of these; Chinese writes an ellipsis as two.
        min_letter_share: letters among what is not blank.
        max_bullet_lines: share of lines that begin with a bullet.
        max_ellipsis_lines: share of lines that end with an ellipsis.
        stop_words: words that running text has.
        min_stop_words: distinct ones, at least.
    """

    min_words: int = 75
    max_words: int = 150_000
    max_symbol_ratio: float = 0.1
    min_letter_share: float = 0.6
    max_bullet_lines: float = 0.9
    max_ellipsis_lines: float = 0.3
    stop_words: tuple[str, ...] = _CHINESE_AND_JAPANESE
    min_stop_words: int = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class GopherQuality:
    """Drops what is no running text.

    A word is a run of letters and digits. English stop words make it a filter for English, as in the paper; give
    others, or ``min_stop_words: 0``, for other languages.

    Attributes:
        min_words: at least.
        max_words: at most.
        min_mean_word_length: in characters.
        max_mean_word_length: in characters.
        max_symbol_ratio: ``#`` and ellipses for each word.
        max_bullet_lines: share of lines that begin with a bullet.
        max_ellipsis_lines: share of lines that end with an ellipsis.
        min_alphabetic_words: share of what stands between blanks that has a letter in it.
        stop_words: words that running text has.
        min_stop_words: distinct ones, at least.
        unspaced: the rules for Chinese, Japanese and other scripts without spaces; null: such documents pass.
    """

    name: ClassVar[str] = "gopher_quality"
    version: ClassVar[int] = 1

    min_words: int = 50
    max_words: int = 100_000
    min_mean_word_length: float = 3.0
    max_mean_word_length: float = 10.0
    max_symbol_ratio: float = 0.1
    max_bullet_lines: float = 0.9
    max_ellipsis_lines: float = 0.3
    min_alphabetic_words: float = 0.8
    stop_words: tuple[str, ...] = _ENGLISH
    min_stop_words: int = 2
    unspaced: UnspacedQuality | None = field(default_factory=UnspacedQuality)

    def apply(self, batch: Batch, tally: Tally) -> Batch:
        """See ``Step.apply``."""
        return sift(batch, judge(self._bounds(batch), len(batch)), tally)

    def _bounds(self, batch: Batch) -> Iterator[Bound]:
        unspaced = batch.of(signs.are_cjk)
        spaced = ~unspaced
        words = batch.of(texts.word_counts)
        mean = batch.of(signs.mean_word_lengths)
        symbols = texts.ratio(batch.of(signs.hashes_and_ellipses), words)
        bullets, ellipses = batch.of(lines.bullet_shares), batch.of(lines.ellipsis_shares)
        if spaced.any():
            yield Bound("too few words", words, least=self.min_words, among=spaced)
            yield Bound("too many words", words, most=self.max_words, among=spaced)
            yield Bound("words too short", mean, least=self.min_mean_word_length, among=spaced)
            yield Bound("words too long", mean, most=self.max_mean_word_length, among=spaced)
            yield Bound("too many symbols", symbols, most=self.max_symbol_ratio, among=spaced)
            yield Bound("too many bullet lines", bullets, most=self.max_bullet_lines, among=spaced)
            yield Bound("too many ellipsis lines", ellipses, most=self.max_ellipsis_lines, among=spaced)
            alphabetic = batch.of(signs.alphabetic_shares)
            yield Bound("too few alphabetic words", alphabetic, least=self.min_alphabetic_words, among=spaced)
            yield from _stop_words(batch, self.stop_words, self.min_stop_words, spaced)
        rules = self.unspaced
        if rules and unspaced.any():
            yield Bound("too few words", words, least=rules.min_words, among=unspaced)
            yield Bound("too many words", words, most=rules.max_words, among=unspaced)
            yield Bound("too many symbols", symbols, most=rules.max_symbol_ratio, among=unspaced)
            letters = texts.ratio(batch.of(signs.letters), batch.of(signs.visible))
            yield Bound("too few letters", letters, least=rules.min_letter_share, among=unspaced)
            yield Bound("too many bullet lines", bullets, most=rules.max_bullet_lines, among=unspaced)
            yield Bound("too many ellipsis lines", ellipses, most=rules.max_ellipsis_lines, among=unspaced)
            yield from _stop_words(batch, rules.stop_words, rules.min_stop_words, unspaced)


def _stop_words(batch: Batch, words: tuple[str, ...], least: int, among: NDArray[np.bool_]) -> Iterator[Bound]:
    if least:
        yield Bound("too few stop words", batch.of(texts.distinct_among(words)), least=least, among=among)
