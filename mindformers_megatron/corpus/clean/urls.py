"""The step ``urls``: addresses of pages taken out of texts."""

import re
from dataclasses import dataclass
from typing import ClassVar

from mindformers_megatron.corpus.batch import Batch
from mindformers_megatron.corpus.steps import rewrite
from mindformers_megatron.corpus.tally import Tally

# What goes on in a URL is ASCII (RFC 3986): behind one, Chinese goes on without a space.
URL = re.compile(r"(?<![A-Za-z0-9])(?:(?:https?|ftp)://[!-;=?-~]+|www\.[a-z0-9-]+\.[!-;=?-~]+)", re.I)
_TRAILING = ".,;:!?'\"*_"
_EMPTY = re.compile(r"[ ]?(?:\([ ]*\)|\[[ ]*\]|<[ ]*>|（[ ]*）|【[ ]*】)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Urls:
    """Takes URLs out of texts.

    Attributes:
        replacement: what is put in their place. If that is nothing, brackets that become empty go too.
    """

    name: ClassVar[str] = "urls"
    version: ClassVar[int] = 1

    replacement: str = ""

    def apply(self, batch: Batch, tally: Tally) -> Batch:
        """See ``Step.apply``."""
        return rewrite(batch, [self._clean(text) for text in batch.texts], tally)

    def _clean(self, text: str) -> str:
        if "://" not in text and "www." not in text.lower():
            return text
        cleaned = URL.sub(lambda match: self.replacement + match[0][len(trimmed(match[0])) :], text)
        return cleaned if self.replacement or cleaned == text else _EMPTY.sub("", cleaned)


def trimmed(url: str) -> str:
    """A URL without the punctuation of the sentence around it."""
    url = url.rstrip(_TRAILING)
    for opening, closing in ("()", "[]"):
        while url.endswith(closing) and url.count(closing) > url.count(opening):
            url = url[:-1].rstrip(_TRAILING)
    return url
