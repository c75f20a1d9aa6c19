"""The raw files of a recipe, cut into parts that are worked on one by one."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from mindformers_megatron.corpus.readers.cutting import plan_parts
from mindformers_megatron.corpus.readers.parts import ReadPart
from mindformers_megatron.corpus.recipe import RecipeSource
from mindformers_megatron.format.fingerprint import fingerprint_of
from mindformers_megatron.format.metadata import SourceInfo

_NAME_DIGITS = 16


@dataclass(frozen=True, slots=True)
class RawPart:
    """A part of a source.

    Attributes:
        name: of the shards that come of it: the source, and a hash of what is read. A file that is added gives other
            parts new names only where they have changed, so that finished work is found again.
        identity: of the files and ranges that are read, and of how they are; changes when a file is written to.
        part: what is read.
        source: whose.
    """

    name: str
    identity: str
    part: ReadPart
    source: RecipeSource


def find_parts(sources: Sequence[RecipeSource], part_bytes: int) -> list[RawPart]:
    """Finds the raw files of all sources, in order.

    Raises:
        DataError: a file is missing, or a folder or pattern has none.
        ConfigError: a format cannot be told.
    """
    return list(_named(sources, part_bytes))


def raw_files(parts: Sequence[RawPart], source: str) -> list[SourceInfo]:
    """The files of a source, each once, in order."""
    found: dict[str, SourceInfo] = {}
    for part in parts:
        if part.source.name == source:
            for piece in part.part.slices:
                file = piece.file.input
                found.setdefault(str(file.path), SourceInfo(path=str(file.path), size=file.size, sha256=None))
    return list(found.values())


def _named(sources: Sequence[RecipeSource], part_bytes: int) -> Iterator[RawPart]:
    seen: Counter[str] = Counter()
    for source in sources:
        options = asdict(source.source)
        # Where a source's files are does not matter, only which they are; and its rank is a matter of later stages.
        options.pop("paths")
        for part in plan_parts(source.source, part_bytes=part_bytes):
            identity = fingerprint_of({"options": options, "slices": [_slice(piece) for piece in part.slices]})
            places = fingerprint_of({"slices": [_slice(piece, of_content=False) for piece in part.slices]})
            name = f"{source.name}-{places[:_NAME_DIGITS]}"
            seen[name] += 1
            if seen[name] > 1:  # the same files twice in a source
                name = f"{name}-{seen[name]}"
            yield RawPart(name, identity, part, source)


def _slice(piece: Any, *, of_content: bool = True) -> list[Any]:
    file = piece.file.input
    place: list[Any] = [str(file.path), piece.start, piece.stop]
    if not of_content:
        return place
    encoding = None if piece.encoding is None else piece.encoding.name
    return [*place, piece.file.name, piece.file.format, file.size, file.modified, piece.first_line, encoding]
