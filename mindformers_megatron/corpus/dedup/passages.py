"""The lines and paragraphs of a text, numbered, and the text without some of them."""

import re
from collections.abc import Collection
from typing import Literal

Unit = Literal["line", "paragraph"]

_BLANK_LINES = re.compile(r"(\n(?:[^\S\n]*\n)+)")


def split_passages(text: str, unit: Unit) -> list[str]:
    """Returns the lines of a text, or its paragraphs: what stands between blank lines."""
    return _split(text, unit)[::2]


def remove_passages(text: str, numbers: Collection[int], unit: Unit) -> str:
    """Returns a text without some of its lines or paragraphs.

    Each goes with the line ends after it; what is last then goes on to the end as it stands.

    Args:
        text: as it was split.
        numbers: places in ``split_passages(text, unit)``.
        unit: line or paragraph.
    """
    pieces = _split(text, unit)
    left = [place for place in range(0, len(pieces), 2) if place // 2 not in numbers]
    return "".join(pieces[place] + pieces[place + 1] for place in left[:-1]) + "".join(pieces[p] for p in left[-1:])


def _split(text: str, unit: Unit) -> list[str]:
    """Passages at even places, what separates them at odd ones."""
    if unit == "paragraph":
        return _BLANK_LINES.split(text)
    lines = text.split("\n")
    pieces = ["\n"] * (2 * len(lines) - 1)
    pieces[::2] = lines
    return pieces
