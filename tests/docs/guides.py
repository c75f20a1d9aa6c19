"""The fenced blocks of the README and the guides, and which of them are commands to be run."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
ENGLISH = [
    ROOT / "README.md",
    *(
        ROOT / "docs" / f"{name}.md"
        for name in (
            "corpus",
            "prepare",
            "tokenizer",
            "train",
            "resume",
            "troubleshoot",
            "trace",
            "report",
            "verify",
            "scale",
        )
    ),
]

# A comment before a fence keeps the block from being run, and says why.
_BLOCK = re.compile(
    r"(?:<!-- not run: (?P<reason>.+?) -->\n)?^```(?P<kind>\w*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL
)


@dataclass(frozen=True)
class Block:
    """A fenced block.

    Attributes:
        kind: what the fence says it is: bash, yaml, text, …
        text: the lines between the fences.
        reason: why it is not run, None if it is.
    """

    kind: str
    text: str
    reason: str | None

    @property
    def file(self) -> str | None:
        """The file that the block is the content of, as its first line says."""
        named = re.match(r"# (\S+\.yaml)\n", self.text)
        return named[1] if self.kind == "yaml" and named else None

    @property
    def code(self) -> list[str]:
        """The lines without comments and blank lines."""
        lines = (re.sub(r"(^|\s)#.*", "", line).rstrip() for line in self.text.splitlines())
        return [line for line in lines if line]


def blocks(path: Path) -> Iterator[Block]:
    """The blocks of a guide, in order."""
    for found in _BLOCK.finditer(path.read_text(encoding="utf-8")):
        yield Block(found["kind"], found["text"], found["reason"])


def translation(path: Path) -> Path:
    """The Chinese version of a guide."""
    return path.with_name(f"{path.stem}.zh-CN.md")
