"""The step ``whitespace``: blanks folded, line ends and the indentation of code kept."""

import re
from dataclasses import dataclass
from typing import ClassVar

from mindformers_megatron.corpus.batch import Batch
from mindformers_megatron.corpus.steps import rewrite
from mindformers_megatron.corpus.tally import Tally
from mindformers_megatron.errors import ConfigError

_SPACES = re.compile("[\u00a0\u1680\u2000-\u200a\u202f\u205f\u3000]")
_INDENT_OF_PARAGRAPH = re.compile("^\u3000+", re.M)
_WITH_TAB = re.compile(" *\t[ \t]*")
_RUN = re.compile("  +")


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
        return rewrite(batch, [fold(text, self.blank_lines) for text in batch.texts], tally)


def fold(text: str, blank_lines: int = 1) -> str:
    """Folds the white space of a text, as ``Whitespace`` does."""
    if not text.isascii() and _SPACES.search(text):
        text = _SPACES.sub(" ", _INDENT_OF_PARAGRAPH.sub("", text))
    if "  " in text or "\t" in text or " \n" in text:
        # Most lines need nothing, and a call for each would be most of the work.
        text = "\n".join(
            [
                _fold_line(line)
                if line and (line[-1] in " \t" or (line[0] not in " \t" and ("  " in line or "\t" in line)))
                else line
                for line in text.split("\n")
            ]
        )
    most = "\n" * (blank_lines + 1)
    while most + "\n" in text:
        text = text.replace(most + "\n", most)
    return text.strip("\n").rstrip()


def _fold_line(line: str) -> str:
    line = line.rstrip(" \t")
    if not line or line[0] in " \t":
        return line
    if "\t" in line:
        line = _WITH_TAB.sub("\t", line)
    return _RUN.sub(" ", line) if "  " in line else line
