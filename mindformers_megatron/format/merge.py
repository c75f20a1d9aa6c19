"""Joining pairs end to end, with what is known about them."""

import os
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mindformers_megatron.errors import ConfigError, DataError
from mindformers_megatron.format.checksums import write_md5
from mindformers_megatron.format.index import read_index
from mindformers_megatron.format.merged_metadata import PartMetadata, merge_metadata, read_part_metadata
from mindformers_megatron.format.metadata import write_metadata
from mindformers_megatron.format.paths import docs_path, prefix_of
from mindformers_megatron.format.provenance import DocsWriter, count_docs
from mindformers_megatron.format.ranges import DocumentRange, write_ranges
from mindformers_megatron.format.writer import WrittenPair

_SHOWN = 3


@dataclass(frozen=True, slots=True)
class MergedPair:
    """A pair made of others.

    Attributes:
        prefix: of the pair.
        parts: prefixes of the others, in order.
        dtype: type of the tokens, NumPy's name.
        written: its counts and hashes.
        has_metadata: whether it has a ``.metadata.json``.
        has_docs: whether it has a ``.docs.parquet``.
        warnings: what people should know, one line each.
    """

    prefix: str
    parts: tuple[str, ...]
    dtype: str
    written: WrittenPair
    has_metadata: bool
    has_docs: bool
    warnings: tuple[str, ...]


def merge_pairs(
    parts: Sequence[str | os.PathLike[str]],
    prefix: str | os.PathLike[str],
    *,
    multimodal: bool = False,
    on_bytes: Callable[[int], None] | None = None,
) -> MergedPair:
    """Joins pairs into one, with metadata, provenance and checksums.

    ``.bin`` and ``.idx`` are those of Megatron's ``tools/merge_datasets.py``. Metadata and provenance are written if
    every part has them. Memory is constant.

    Args:
        parts: prefixes (or ``.bin``, or ``.idx``) of the parts, in order.
        prefix: of the pair to write.
        multimodal: the parts have modes.
        on_bytes: told how many bytes of tokens were copied since it was last told.

    Raises:
        ConfigError: no parts, the result is one of the parts, or it cannot be written.
        DataError: a part is damaged, has tokens of another type, or of another tokenizer as far as that is known.
    """
    target = prefix_of(prefix)
    sources = [prefix_of(part) for part in parts]
    dtype = _common_dtype(sources, target, multimodal=multimodal)
    metadata = [read_part_metadata(source, multimodal=multimodal) for source in sources]
    warnings: list[str] = []
    described = _all_have(metadata, sources, "metadata", "metadata.json", warnings)
    # Also if some have none: those that have show that ids mean different things.
    known = [part for part in metadata if part is not None]
    merged = merge_metadata(known) if known else None
    rows = [_docs_of(source, multimodal=multimodal) for source in sources]
    has_docs = _all_have(rows, sources, "provenance", "docs.parquet", warnings)
    # Provenance is staged before the pair is published, so that what is wrong with it leaves nothing behind.
    with DocsWriter(target) if has_docs else nullcontext() as docs:
        if docs is not None:
            for source in sources:
                docs.add_from(source)
        written = _join(sources, target, dtype, multimodal=multimodal, sha256=True, md5=True, on_bytes=on_bytes)
    if described and merged is not None:
        warnings.extend(merged.warnings)
        write_metadata(target, merged.of(written))
    write_md5(target, written)
    return MergedPair(
        prefix=target,
        parts=tuple(sources),
        dtype=dtype.name,
        written=written,
        has_metadata=described,
        has_docs=has_docs,
        warnings=tuple(warnings),
    )


def join_pairs(
    parts: Sequence[str | os.PathLike[str]],
    prefix: str | os.PathLike[str],
    *,
    multimodal: bool = False,
    sha256: bool = False,
    md5: bool = False,
) -> WrittenPair:
    """Writes the documents of all parts, in order, as one pair, and nothing beside it; the parts stay.

    The result is what one writer would have written. Memory is constant, and where no hash is asked for the tokens are
    copied by the kernel. The indexes of the parts are checked whole on the way.

    Args:
        parts: prefixes (or ``.bin``, or ``.idx``) of the parts.
        prefix: of the pair to write.
        multimodal: the parts have modes.
        sha256: hash both files while they are written.
        md5: the same with MD5.

    Raises:
        ConfigError: no parts, the result is one of the parts, or it cannot be written.
        DataError: a part is damaged, or has another dtype than the first.
    """
    target = prefix_of(prefix)
    sources = [prefix_of(part) for part in parts]
    dtype = _common_dtype(sources, target, multimodal=multimodal)
    return _join(sources, target, dtype, multimodal=multimodal, sha256=sha256, md5=md5)


def _join(
    sources: Sequence[str], target: str, dtype: np.dtype[Any], *, multimodal: bool, **options: Any
) -> WrittenPair:
    indexes = (read_index(source, multimodal=multimodal) for source in sources)
    ranges = (DocumentRange(index, 0, index.num_documents) for index in indexes)
    return write_ranges(ranges, target, dtype, multimodal=multimodal, **options)


def _common_dtype(sources: Sequence[str], target: str, *, multimodal: bool) -> np.dtype[Any]:
    """Opens all parts before anything is copied: the last of a thousand may be the wrong one."""
    if not sources:
        raise ConfigError(f"{target}: no parts to join")
    if Path(target).resolve() in {Path(source).resolve() for source in sources}:
        raise ConfigError(f"{target}: is one of the parts to join; choose another name for the result")
    by_type: dict[np.dtype[Any], list[str]] = {}
    for source in sources:
        by_type.setdefault(read_index(source, multimodal=multimodal).dtype, []).append(source)
    if len(by_type) > 1:
        found = "; ".join(f"{dtype.name} in {_some(names)}" for dtype, names in by_type.items())
        raise DataError(
            f"{target}: the parts have tokens of different types: {found}; they were made for different vocabularies: "
            "make them again with one tokenizer"
        )
    return next(iter(by_type))


def _docs_of(source: str, *, multimodal: bool) -> int | None:
    rows = count_docs(source)
    documents = read_index(source, multimodal=multimodal).num_documents
    if rows is not None and rows != documents:
        raise DataError(
            f"{docs_path(source)}: {rows} rows, but the pair has {documents} documents; it belongs to another pair: "
            "remove it, or make the pair again"
        )
    return rows


def _all_have(
    found: Sequence[PartMetadata | int | None], sources: Sequence[str], what: str, suffix: str, warnings: list[str]
) -> bool:
    missing = [source for source, value in zip(sources, found, strict=True) if value is None]
    if missing:
        warnings.append(f"no {what} written, because there is no .{suffix} beside {_some(missing)}")
    return not missing


def _some(names: Sequence[str]) -> str:
    shown = ", ".join(names[:_SHOWN])
    return f"{shown} and {len(names) - _SHOWN} more" if len(names) > _SHOWN else shown
