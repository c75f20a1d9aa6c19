"""The step ``url_share``: texts that are mostly addresses."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from mindformers_megatron.corpus.batch import Batch
from mindformers_megatron.corpus.clean.urls import URL, trimmed
from mindformers_megatron.corpus.filters.bounds import Bound, judge
from mindformers_megatron.corpus.steps import sift
from mindformers_megatron.corpus.tally import Tally


@dataclass(frozen=True, slots=True, kw_only=True)
class UrlShare:
    """Drops texts by the URLs in them.

    Attributes:
        max_share: of characters within URLs.
        max_length: of one URL, in characters; null: any. Longer ones are mostly sessions, tracking and encoded data.
    """

    name: ClassVar[str] = "url_share"
    version: ClassVar[int] = 1

    max_share: float = 0.3
    max_length: int | None = None

    def apply(self, batch: Batch, tally: Tally) -> Batch:
        """See ``Step.apply``."""
        shares, longest = np.zeros(len(batch)), np.zeros(len(batch), np.int64)
        for place, text in enumerate(batch.texts):
            if "://" in text or "www." in text:
                sizes = [len(trimmed(url)) for url in URL.findall(text)]
                shares[place], longest[place] = sum(sizes) / len(text), max(sizes, default=0)
        bounds = [Bound("too many URLs", shares, most=self.max_share)]
        if self.max_length is not None:
            bounds.append(Bound("a URL too long", longest, most=self.max_length))
        return sift(batch, judge(bounds, len(batch)), tally)
