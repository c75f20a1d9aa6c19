"""The step ``fineweb``: the rules that FineWeb found beside those of Gopher and C4.

Penedo et al., "The FineWeb Datasets: Decanting the Web for the Finest Text Data at Scale" (2024), section 3.6. The
numbers are the paper's. For scripts without spaces the length of a short line is halved, as a character says that much
more.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from mindformers_megatron.corpus.batch import Batch
from mindformers_megatron.corpus.filters.bounds import Bound, judge
from mindformers_megatron.corpus.measures import lines, signs
from mindformers_megatron.corpus.steps import sift
from mindformers_megatron.corpus.tally import Tally


@dataclass(frozen=True, slots=True, kw_only=True)
class FineWeb:
    """Drops lists and tables that pass for text.

    Attributes:
        min_ending_lines: share of lines that end as sentences do; documents at or below it are dropped.
        max_repeated_line_characters: share of characters in lines that were there before; at or above it.
        short_line: characters of a line that counts as short; fewer than these.
        short_line_unspaced: the same in Chinese, Japanese and other scripts without spaces.
        max_short_lines: share of short lines; at or above it.
    """

    name: ClassVar[str] = "fineweb"
    version: ClassVar[int] = 1

    min_ending_lines: float = 0.12
    max_repeated_line_characters: float = 0.1
    short_line: int = 30
    short_line_unspaced: int = 15
    max_short_lines: float = 0.67

    def apply(self, batch: Batch, tally: Tally) -> Batch:
        """See ``Step.apply``."""
        return sift(batch, judge(self._bounds(batch), len(batch)), tally)

    def _bounds(self, batch: Batch) -> Iterator[Bound]:
        unspaced = batch.of(signs.are_cjk)
        ending = batch.of(lines.ending_shares)
        yield Bound("too few lines end a sentence", ending, least=self.min_ending_lines, strict=True)
        repeated = batch.of(lines.repeated_lines)[:, 1]
        yield Bound("repeated lines, by characters", repeated, most=self.max_repeated_line_characters, strict=True)
        for short, among in ((self.short_line, ~unspaced), (self.short_line_unspaced, unspaced)):
            shares = batch.of(lines.short_shares(short - 1))
            yield Bound("too many short lines", shares, most=self.max_short_lines, among=among, strict=True)
