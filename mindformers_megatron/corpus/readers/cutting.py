"""Cutting the files of a source into parts that are read independently, each of bounded size.

Large files of lines are cut at bytes and Parquet at row groups; small files are taken together; a compressed file is
one part, since it can only be read from its beginning. Where the cuts are depends on the files and the size asked for
alone.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from mindformers_megatron.corpus.readers.encodings import SAMPLE_BYTES, Encoding, detect_encoding, whole_characters
from mindformers_megatron.corpus.readers.parquet import row_groups
from mindformers_megatron.corpus.readers.parts import ReadPart, Slice
from mindformers_megatron.corpus.readers.sources import Source, SourceFile, find_files
from mindformers_megatron.errors import ConfigError, DataError
from mindformers_megatron.tokenization.streams import compression_of

PART_BYTES = 64 << 20
_FILES = 1 << 14
_SAMPLES = 16
_CHUNK_BYTES = 1 << 22

Run = Callable[[Callable[[Any], Any], Iterable[Any]], Iterable[Any]]


def plan_parts(source: Source, *, part_bytes: int = PART_BYTES, run: Run = map) -> list[ReadPart]:
    """Cuts a source into parts.

    Files that are cut at bytes are read once for it, at the speed of the disk, to number their lines.

    Args:
        source: the source.
        part_bytes: bytes of a part on disk, about.
        run: calls a function for each of some items and returns the results in order, like ``map``; another one looks
            at files in parallel.

    Raises:
        ConfigError: ``part_bytes`` is no size, or a format cannot be told.
        DataError: a file is missing or cannot be read.
    """
    if part_bytes < 1:
        raise ConfigError(f"part_bytes is {part_bytes}; give 1 or more")
    cut = run(partial(_cut, source=source, part_bytes=part_bytes), find_files(source))
    groups = _group((piece for pieces in cut for piece in pieces), part_bytes)
    return [ReadPart(number, source, tuple(group), size) for number, (group, size) in enumerate(groups)]


def _group(pieces: Iterable[tuple[Slice, int]], part_bytes: int) -> Iterator[tuple[list[Slice], int]]:
    group: list[Slice] = []
    size = 0
    for piece, bytes_ in pieces:
        if group and (size + bytes_ > part_bytes or len(group) == _FILES):
            yield group, size
            group, size = [], 0
        group.append(piece)
        size += bytes_
    if group:
        yield group, size


def _cut(file: SourceFile, source: Source, part_bytes: int) -> list[tuple[Slice, int]]:
    """The slices of a file, with their sizes in bytes."""
    size = file.input.size
    whole = Slice(file, encoding=source.fixed_encoding)
    if file.format == "parquet":
        return _cut_parquet(whole, part_bytes)
    of_lines = file.format == "jsonl" or (file.format == "text" and source.document == "line")
    if size <= part_bytes or not of_lines or compression_of(file.input.path):
        return [(whole, size)]
    encoding = source.fixed_encoding or sample_encoding(file.input.path, size)
    if encoding.is_stateful:
        return [(replace(whole, encoding=encoding), size)]
    starts = range(0, size, part_bytes)
    lines = _number_lines(file.input.path, starts)
    return [
        (Slice(file, start, min(start + part_bytes, size), line, encoding), min(part_bytes, size - start))
        for start, line in zip(starts, lines, strict=True)
    ]


def _cut_parquet(whole: Slice, part_bytes: int) -> list[tuple[Slice, int]]:
    slices: list[tuple[Slice, int]] = []
    start = size = 0
    first_row = row = 1
    groups = row_groups(whole.file.input.path)
    for group, (rows, bytes_) in enumerate(groups):
        if size and size + bytes_ > part_bytes:
            slices.append((replace(whole, start=start, stop=group, first_line=first_row), size))
            start, size, first_row = group, 0, row
        size += bytes_
        row += rows
    return [*slices, (replace(whole, start=start, stop=len(groups), first_line=first_row), size)]


def sample_encoding(path: Path, size: int) -> Encoding:
    """The encoding of a plain file of lines, from samples spread over it."""
    per_sample = SAMPLE_BYTES // _SAMPLES
    try:
        with path.open("rb") as file:
            if size <= SAMPLE_BYTES:
                return detect_encoding([file.read()])
            samples = []
            for place in range(_SAMPLES):
                file.seek(place * (size - per_sample) // (_SAMPLES - 1))
                samples.append(whole_characters(file.read(per_sample), is_first=place == 0))
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror}") from None
    return detect_encoding(samples)


def _number_lines(path: Path, starts: Sequence[int]) -> list[int]:
    """For each start, the number of the first line that begins there or later."""
    numbers, ends, position = [1], 0, 0
    try:
        with path.open("rb") as file:
            for start in starts[1:]:
                # A line begins in the range if the line end before it is at ``start - 1`` or later.
                while position < start - 1:
                    data = file.read(min(_CHUNK_BYTES, start - 1 - position))
                    if not data:
                        break
                    ends += data.count(b"\n")
                    position += len(data)
                numbers.append(ends + 2)
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror}") from None
    return numbers
