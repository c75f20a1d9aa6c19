"""The step ``whitespace``: blanks folded, line ends and the indentation of code kept."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from mindformers_megatron.corpus.batch import Batch
from mindformers_megatron.corpus.clean.beyond_ascii import beyond_ascii
from mindformers_megatron.corpus.steps import rewrite
from mindformers_megatron.corpus.tally import Tally
from mindformers_megatron.errors import ConfigError

_SPACES = re.compile("[\u00a0\u1680\u2000-\u200a\u202f\u205f\u3000]")
_INDENT_OF_PARAGRAPH = re.compile("^\u3000+", re.M)
_WITH_TAB = re.compile(b" *\t[ \t]*")
_RUN = re.compile(b"  +")
_TAB, _LINE_END, _SPACE = b"\t\n "


@dataclass(frozen=True, slots=True, kw_only=True)
class Whitespace:
    """Folds white space.

    In a line that begins at its margin, a run of blanks becomes one space, or one tab if there is a tab in it. An
    indented line stays as it is, since it may be code. Blanks at the ends of lines go, as do the ideographic spaces by
    which Chinese and Japanese paragraphs are indented; all other Unicode spaces become plain ones.

    Attributes:
        blank_lines: in a row, at most.
    """

    name: ClassVar[str] = "whitespace"
    version: ClassVar[int] = 1

    blank_lines: int = 1

    def __post_init__(self) -> None:
        if self.blank_lines < 0:
            raise ConfigError(f"blank_lines is {self.blank_lines}; give 0 or more")

    def apply(self, batch: Batch, tally: Tally) -> Batch:
        """See ``Step.apply``."""
        return rewrite(batch, fold_all(batch.texts, self.blank_lines), tally)


def fold(text: str, blank_lines: int = 1) -> str:
    """Folds the white space of a text, as ``Whitespace`` does."""
    return fold_all([text], blank_lines)[0]


def fold_all(texts: Sequence[str], blank_lines: int) -> list[str]:
    """Folds the white space of texts."""
    folded = [_plain(text) for text in texts]
    data = [text.encode() for text in folded]
    for number, lines in _lines_to_fold(data):
        folded[number] = _with_lines_folded(data[number], lines).decode()
    most = "\n" * (blank_lines + 1)
    for number, text in enumerate(folded):
        while most + "\n" in text:
            text = text.replace(most + "\n", most)
        folded[number] = text.strip("\n").rstrip()
    return folded


def _plain(text: str) -> str:
    """Makes Unicode spaces plain ones."""
    return _SPACES.sub(" ", _INDENT_OF_PARAGRAPH.sub("", text)) if _SPACES.search(beyond_ascii(text)) else text


def _lines_to_fold(texts: Sequence[bytes]) -> Iterator[tuple[int, list[int]]]:
    """The numbers of texts in which lines may have to be folded, and places in all of these lines, ascending."""
    raw = np.frombuffer(b"\n".join([b"", *texts, b""]), np.uint8)
    stop = raw == _LINE_END
    blank = (raw == _SPACE) | (raw == _TAB)
    # Blanks at the end of a line; and those behind something else in it, other than one space.
    found = blank[1:-1] & stop[2:]
    found |= blank[1:-1] & ~blank[:-2] & ~stop[:-2] & (blank[2:] | (raw[1:-1] == _TAB))
    places = np.flatnonzero(found)
    begins = np.cumsum([0, *(len(text) + 1 for text in texts)])
    cuts = np.searchsorted(places, begins)
    for number in np.flatnonzero(np.diff(cuts)).tolist():
        yield number, (places[cuts[number] : cuts[number + 1]] - begins[number]).tolist()


def _with_lines_folded(text: bytes, places: Sequence[int]) -> bytes:
    pieces, done = [], 0
    for place in places:
        if place >= done:
            start = text.rfind(b"\n", 0, place) + 1
            end = text.find(b"\n", place)
            end = len(text) if end < 0 else end
            pieces += [text[done:start], _fold_line(text[start:end])]
            done = end
    return b"".join([*pieces, text[done:]])


def _fold_line(line: bytes) -> bytes:
    line = line.rstrip(b" \t")
    if not line or line[0] in b" \t":
        return line
    if b"\t" in line:
        line = _WITH_TAB.sub(b"\t", line)
    return _RUN.sub(b" ", line) if b"  " in line else line
