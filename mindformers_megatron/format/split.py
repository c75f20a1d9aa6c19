"""Cutting a pair into several, between documents."""

import os
from bisect import bisect_right
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from mindformers_megatron.errors import ConfigError, DataError
from mindformers_megatron.format.checksums import write_md5
from mindformers_megatron.format.index import Index, read_index, token_start
from mindformers_megatron.format.merged_metadata import metadata_of, read_part_metadata
from mindformers_megatron.format.metadata import Metadata, write_metadata
from mindformers_megatron.format.paths import docs_path, prefix_of
from mindformers_megatron.format.provenance import DocsWriter, count_docs, read_docs
from mindformers_megatron.format.ranges import DocumentRange, write_ranges
from mindformers_megatron.format.writer import WrittenPair


@dataclass(frozen=True, slots=True)
class Part:
    """A part that is to be written.

    Attributes:
        prefix: of the pair it becomes.
        begin: its first document.
        end: the first document that is no longer in it.
    """

    prefix: str
    begin: int
    end: int


def cut_by_documents(index: Index, per_part: int) -> list[int]:
    """Cuts after every ``per_part`` documents; the last part may have fewer.

    Returns:
        The documents at which parts begin, and the number of documents at the end.

    Raises:
        ConfigError: ``per_part`` is below 1.
    """
    _check(per_part, "documents")
    return [*range(0, index.num_documents, per_part), index.num_documents]


def cut_by_tokens(index: Index, per_part: int) -> list[int]:
    """Fills parts up to ``per_part`` tokens; a longer document is a part of its own.

    Reads some 30 values of the index for each part.

    Returns:
        As ``cut_by_documents``.

    Raises:
        ConfigError: ``per_part`` is below 1.
    """
    _check(per_part, "tokens")
    cuts = [0]
    while cuts[-1] < index.num_documents:
        full = token_start(index, cuts[-1]) + per_part
        cuts.append(max(_last_start_up_to(index, full), cuts[-1] + 1))
    return cuts


def cut_evenly(index: Index, parts: int) -> list[int]:
    """Cuts into parts of as nearly the same number of tokens as whole documents allow, each of one document at least.

    Returns:
        As ``cut_by_documents``.

    Raises:
        ConfigError: there are fewer documents than parts.
    """
    _check(parts, "parts")
    if parts > index.num_documents:
        raise ConfigError(f"{index.prefix}: {index.num_documents} documents cannot be cut into {parts} parts")
    cuts = [0]
    for part in range(1, parts):
        wanted = index.num_tokens * part / parts
        below = min(_last_start_up_to(index, int(wanted)), index.num_documents - 1)
        nearer = token_start(index, below + 1) - wanted < wanted - token_start(index, below)
        cuts.append(min(max(below + nearer, cuts[-1] + 1), index.num_documents - (parts - part)))
    return [*cuts, index.num_documents]


def split_pair(
    prefix: str | os.PathLike[str],
    parts: Sequence[Part],
    *,
    multimodal: bool = False,
    on_bytes: Callable[[int], None] | None = None,
) -> list[WrittenPair]:
    """Writes parts of a pair as pairs, each with metadata, provenance and checksums if the whole has them.

    Memory is constant. Each part appears whole or not at all, in the order given.

    Args:
        prefix: of the pair, or its ``.bin`` or ``.idx``; it stays as it is.
        parts: what to write. Each must have tokens, because the format has no pair without.
        multimodal: the pair has modes.
        on_bytes: told how many bytes of tokens were copied since it was last told.

    Raises:
        ConfigError: a part would have no tokens, would overwrite the whole, or cannot be written.
        DataError: the pair is damaged.
    """
    index = read_index(prefix, multimodal=multimodal)
    for part in parts:
        _check_part(index, part)
    found = read_part_metadata(index.prefix, multimodal=multimodal)
    metadata = None if found is None else found.metadata
    rows = count_docs(index.prefix)
    if rows is not None and rows != index.num_documents:
        raise DataError(
            f"{docs_path(index.prefix)}: {rows} rows, but the pair has {index.num_documents} documents; it belongs to "
            "another pair: remove it, or make the pair again"
        )
    write = partial(_write_part, index, metadata=metadata, has_docs=rows is not None, on_bytes=on_bytes)
    return [write(part) for part in parts]


def _write_part(
    index: Index, part: Part, *, metadata: Metadata | None, has_docs: bool, on_bytes: Callable[[int], None] | None
) -> WrittenPair:
    target = prefix_of(part.prefix)
    files: set[str] = set()
    with DocsWriter(target) if has_docs else nullcontext() as docs:
        if docs is not None:
            for batch in read_docs(index.prefix, part.begin, part.end):
                docs.add_batch(batch)
                files.update(batch["file"].unique().to_pylist())
        written = write_ranges(
            [DocumentRange(index, part.begin, part.end)],
            target,
            index.dtype,
            multimodal=index.sequence_modes is not None,
            sha256=True,
            md5=True,
            on_bytes=on_bytes,
        )
    if metadata is not None:
        described = metadata_of(written, metadata)
        if has_docs:
            # Not every input has documents in every part.
            described = replace(described, sources=tuple(s for s in metadata.sources if s.path in files))
        write_metadata(target, described)
    write_md5(target, written)
    return written


def _check_part(index: Index, part: Part) -> None:
    if not 0 <= part.begin <= part.end <= index.num_documents:
        raise ConfigError(f"{part.prefix}: documents {part.begin} to {part.end} of {index.num_documents}")
    if token_start(index, part.begin) == token_start(index, part.end):
        raise ConfigError(
            f"{part.prefix}: documents {part.begin} to {part.end} of {index.num_documents} have no tokens, and there "
            "is no pair without; make this part larger"
        )
    if Path(prefix_of(part.prefix)).resolve() == Path(index.prefix).resolve():
        raise ConfigError(f"{part.prefix}: would overwrite what is to be split; choose another name")


def _last_start_up_to(index: Index, tokens: int) -> int:
    """The last document, or the end, with at most so many tokens before it."""
    documents = range(index.num_documents + 1)
    return bisect_right(documents, tokens, key=lambda document: token_start(index, document)) - 1


def _check(number: int, unit: str) -> None:
    if number < 1:
        raise ConfigError(f"cannot split by {number} {unit}; give 1 or more")
