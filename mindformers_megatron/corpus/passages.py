"""The lines and paragraphs of a text, numbered, and the text without some of them."""

import re
from collections.abc import Collection
from typing import Literal

Unit = Literal["line", "paragraph"]

_BLANK_LINES = re.compile(r"(\n(?:[^\S\n]*\n)+)")


def split_passages(text: str, unit: Unit) -> list[str]:
    """Returns the lines of a text, or its paragraphs: what stands between blank lines."""
    return [passage for passage, _ in split_with_gaps(text, unit)]


def split_with_gaps(text: str, unit: Unit) -> list[tuple[str, str]]:
    """Returns lines or paragraphs, each with the line ends between it and the next one."""
    if unit == "line":
        *lines, last = text.split("\n")
        return [*((line, "\n") for line in lines), (last, "")]
    pieces = [*_BLANK_LINES.split(text), ""]
    return [*zip(pieces[::2], pieces[1::2], strict=True)]


def remove_passages(text: str, numbers: Collection[int], unit: Unit) -> str:
    """Returns a text without some of its lines or paragraphs.

    Each goes with the line ends after it; what is last then goes on to the end as it stands.

    Args:
        text: as it was split.
        numbers: places in ``split_passages(text, unit)``.
        unit: line or paragraph.
    """
    left = [piece for number, piece in enumerate(split_with_gaps(text, unit)) if number not in numbers]
    *pieces, (last, _) = left or [("", "")]
    return "".join(passage + gap for passage, gap in pieces) + last
