"""The step ``punctuation``: texts that are hardly any letters."""

from dataclasses import dataclass
from typing import ClassVar

from mindformers_megatron.corpus.batch import Batch
from mindformers_megatron.corpus.filters.bounds import Bound, judge
from mindformers_megatron.corpus.measures import signs
from mindformers_megatron.corpus.measures.texts import ratio
from mindformers_megatron.corpus.steps import sift
from mindformers_megatron.corpus.tally import Tally
from mindformers_megatron.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class Punctuation:
    """Drops texts that are mostly punctuation and symbols, or were garbled beyond repair.

    Attributes:
        max_share: of punctuation and symbols in what is not blank. Program code has a quarter to a third of it.
        max_garbled_share: of U+FFFD, which stands where a decoder did not know what it read.
    """

    name: ClassVar[str] = "punctuation"
    version: ClassVar[int] = 1

    max_share: float = 0.6
    max_garbled_share: float = 0.01

    def __post_init__(self) -> None:
        for name in ("max_share", "max_garbled_share"):
            if not 0 <= getattr(self, name) <= 1:
                raise ConfigError(f"{name} is {getattr(self, name)}; give 0 to 1")

    def apply(self, batch: Batch, tally: Tally) -> Batch:
        """See ``Step.apply``."""
        visible = batch.of(signs.visible)
        bounds = (
            Bound("garbled", ratio(batch.of(signs.garbled), visible), most=self.max_garbled_share),
            Bound("too much punctuation", ratio(batch.of(signs.marks), visible), most=self.max_share),
        )
        return sift(batch, judge(bounds, len(batch)), tally)
