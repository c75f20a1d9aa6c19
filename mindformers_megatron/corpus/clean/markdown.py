"""The step ``markdown``: text without its markup."""

import re
from dataclasses import dataclass
from typing import ClassVar

from mindformers_megatron.corpus.batch import Batch
from mindformers_megatron.corpus.steps import rewrite
from mindformers_megatron.corpus.tally import Tally

_FENCE = re.compile(r"^[ \t]*(```+|~~~+)[^\n`]*$", re.M)
_INLINE_CODE = re.compile(r"(?<!`)(`{1,2})(?!`)([^`\n]+)\1(?!`)")
_BLOCK = (
    (re.compile(r"^[ ]{0,3}#{1,6}[ \t]+(.*?)[ \t]*#*[ \t]*$", re.M), r"\1"),
    (re.compile(r"^(?=\S)(.*)\n[ ]{0,3}(?:=+|-{3,})[ \t]*$", re.M), r"\1"),
    (re.compile(r"^[ ]{0,3}(?:(?:\*[ \t]*){3,}|(?:-[ \t]*){3,}|(?:_[ \t]*){3,})$\n?", re.M), ""),
    (re.compile(r"^[ ]{0,3}(?:>[ ]?)+", re.M), ""),
    (re.compile(r"^[ ]{0,3}\[[^\]\n]+\]:[ \t]*\S+.*$\n?", re.M), ""),
    (re.compile(r"^[ \t]*\|?(?:[ \t]*:?-+:?[ \t]*\|)+[ \t]*(?::?-+:?)?[ \t]*$\n?", re.M), ""),
)
_LINK = re.compile(r"!?\[([^\]\[\n]*)\](?:\([^()\n]*(?:\([^()\n]*\)[^()\n]*)*\)|\[[^\]\n]*\])")
_AUTOLINK = re.compile(r"<((?:https?://|mailto:)[^<>\s]+)>")
_STRONG = re.compile(r"(?<![\w*\\])(\*\*\*|\*\*|\*)(?=[^\s*])([^*\n]+?)(?<=[^\s*\\])\1(?![\w*])")
_UNDERLINED = re.compile(r"(?<![\w_\\])(___|__|_)(?=[^\s_])([^_\n]+?)(?<=[^\s_\\])\1(?![\w_])")
_STRUCK = re.compile(r"~~(?=\S)([^~\n]+?)(?<=\S)~~")
_ESCAPED = re.compile(r"\\([\\`*_{}\[\]()#+.!|>~-])")


@dataclass(frozen=True, slots=True, kw_only=True)
class Markdown:
    """Takes the markup of Markdown off: headings, emphasis, links (their text stays), quotes, rules, fences.

    Code keeps every character, also between fences and backticks. For sources that are in Markdown: elsewhere ``#
    comment`` and ``__init__`` mean other things.
    """

    name: ClassVar[str] = "markdown"
    version: ClassVar[int] = 1

    def apply(self, batch: Batch, tally: Tally) -> Batch:
        """See ``Step.apply``."""
        return rewrite(batch, [plain(text) for text in batch.texts], tally)


def plain(text: str) -> str:
    """A text in Markdown without its markup."""
    pieces: list[str] = []
    position = 0
    while opened := _FENCE.search(text, position):
        closing = re.compile(rf"^[ \t]*{opened[1]}[ \t]*$", re.M).search(text, opened.end())
        stop = closing.start() if closing else len(text)
        pieces += [_plain_prose(text[position : opened.start()]), text[opened.end() : stop].strip("\n")]
        position = closing.end() if closing else len(text)
    return "\n".join([*(piece for piece in pieces if piece), _plain_prose(text[position:]).lstrip("\n")]).rstrip("\n")


def _plain_prose(text: str) -> str:
    for pattern, replacement in _BLOCK:
        text = pattern.sub(replacement, text)
    # Every third piece of what is left is code, and stays.
    pieces = _INLINE_CODE.split(text)
    pieces[::3] = [_plain_inline(piece) for piece in pieces[::3]]
    return "".join(piece for place, piece in enumerate(pieces) if place % 3 != 1)


def _plain_inline(text: str) -> str:
    text = _AUTOLINK.sub(r"\1", _LINK.sub(r"\1", text))
    for pattern in (_STRONG, _UNDERLINED):
        text = pattern.sub(r"\2", text)
    return _ESCAPED.sub(r"\1", _STRUCK.sub(r"\1", text))
