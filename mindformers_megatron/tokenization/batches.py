"""The records of a piece, some at a time, as columns.

Nearly every block of lines is good, and is parsed in one go. Where something is wrong in one, its lines are looked at
one by one.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from io import BytesIO
from itertools import chain
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray

from mindformers_megatron.tokenization.parquet import read_rows
from mindformers_megatron.tokenization.part_files import Reject
from mindformers_megatron.tokenization.parts import Piece, read_blocks
from mindformers_megatron.tokenization.records import (
    Record,
    RecordError,
    id_of,
    meta_of,
    parse_record,
    record_of,
    source_of,
)

_RAW_CHARACTERS = 200
_ROWS = 256


@dataclass(frozen=True, slots=True)
class Texts:
    """The texts of some records under one key.

    Attributes:
        flat: all of them, in order.
        counts: how many each record has, int64[D].
    """

    flat: list[str]
    counts: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Batch:
    """Some records, and what was between them.

    Attributes:
        lines: number of each record's line, from 1; counted from the piece's first where that number is not known.
        byte_offsets: where it begins; int64[D] like ``lines``.
        texts: for each key.
        ids: what each calls itself; None where none does.
        sources: where each says it comes from; likewise.
        metas: the ``meta`` of each, as JSON; likewise.
        num_lines: lines read, those that are no records included.
        blanks: lines of white space.
        rejects: lines that are no records.
        share: of the piece that has been read with it.
    """

    lines: NDArray[np.int64]
    byte_offsets: NDArray[np.int64]
    texts: tuple[Texts, ...]
    ids: Sequence[str | None] | None
    sources: Sequence[str | None] | None
    metas: Sequence[str | None] | None
    num_lines: int
    blanks: int
    rejects: tuple[Reject, ...]
    share: float

    def __len__(self) -> int:
        """Number of records."""
        return self.lines.size

    def without(self, dropped: NDArray[np.bool_], rejects: Sequence[Reject]) -> "Batch":
        """The same without some of its records, which are listed as rejects."""
        kept = np.flatnonzero(~dropped)

        def column(values: Sequence[str | None] | None) -> Sequence[str | None] | None:
            return None if values is None else [values[place] for place in kept]

        def texts(of: Texts) -> Texts:
            keep = np.repeat(~dropped, of.counts)
            return Texts([text for text, keeps in zip(of.flat, keep, strict=True) if keeps], of.counts[kept])

        return Batch(
            lines=self.lines[kept],
            byte_offsets=self.byte_offsets[kept],
            texts=tuple(map(texts, self.texts)),
            ids=column(self.ids),
            sources=column(self.sources),
            metas=column(self.metas),
            num_lines=self.num_lines,
            blanks=self.blanks,
            rejects=tuple(sorted((*self.rejects, *rejects), key=lambda reject: reject.line)),
            share=self.share,
        )


def read_batches(piece: Piece, keys: Sequence[str], block_bytes: int) -> Iterator[Batch]:
    """Yields all records of a piece.

    Args:
        piece: the piece.
        keys: where the texts are.
        block_bytes: input of a batch, about.

    Raises:
        DataError: the file cannot be read.
    """
    line = piece.first_line or 1
    if piece.row_group is not None:
        for rows in read_rows(piece.path, piece.row_group, keys, _ROWS):
            yield _from_rows(rows, line, keys, len(rows) / (piece.stop - piece.start))
            line += len(rows)
        return
    size = max(piece.stop - piece.start, 1)
    for offset, block in read_blocks(piece, block_bytes):
        share = len(block) / size
        batch = _parse_block(block, offset, line, keys, share) or _parse_lines(block, offset, line, keys, share)
        line += batch.num_lines
        # Let go before the texts are encoded, which may be as long.
        del block
        yield batch


def _parse_block(block: bytes, offset: int, line: int, keys: Sequence[str], share: float) -> Batch | None:
    """All lines as records, None if one is none."""
    # A tenth of the time of bytes.split, and a line that is the whole block is not copied.
    lines = BytesIO(block).readlines()
    try:
        records = list(map(orjson.loads, lines))
        values = [[record[key] for record in records] for key in keys]
        ids = [record.get("id") for record in records]
        metas = [record.get("meta") for record in records]
        sources = [record.get("source") for record in records]
    except (orjson.JSONDecodeError, KeyError, TypeError, AttributeError, IndexError):
        return None
    texts = []
    for column in values:
        if not set(map(type, column)) <= {str}:
            return None
        texts.append(Texts(column, np.ones(len(column), np.int64)))
    ends = np.cumsum(np.fromiter(map(len, lines), np.int64, len(lines)))
    return Batch(
        lines=np.arange(line, line + len(lines)),
        byte_offsets=np.concatenate(([0], ends[:-1])) + offset,
        texts=tuple(texts),
        ids=_column(map(id_of, ids)) if _is_any(ids) else None,
        sources=_column(map(source_of, sources, metas)) if _is_any(sources) or _is_any(metas) else None,
        metas=_column(map(meta_of, metas)) if _is_any(metas) else None,
        num_lines=len(lines),
        blanks=0,
        rejects=(),
        share=share,
    )


def _is_any(values: Sequence[Any]) -> bool:
    return values.count(None) < len(values)


def _column(values: Iterable[str | None]) -> Sequence[str | None] | None:
    column = list(values)
    return column if _is_any(column) else None


def _parse_lines(block: bytes, offset: int, first: int, keys: Sequence[str], share: float) -> Batch:
    lines = BytesIO(block).readlines()
    places, offsets, records, rejects = [], [], [], []
    blanks = 0
    for number, line in enumerate(lines, first):
        if line.isspace():
            blanks += 1
        else:
            try:
                records.append(parse_record(line, keys))
                places.append(number)
                offsets.append(offset)
            except RecordError as error:
                rejects.append(Reject(number, offset, str(error), _begin_of(line)))
        offset += len(line)
    return _columns(records, places, offsets, len(lines), blanks, rejects, share)


def _begin_of(line: bytes) -> str:
    return line[: 4 * _RAW_CHARACTERS].decode(errors="replace").rstrip("\r\n")[:_RAW_CHARACTERS]


def _from_rows(rows: Sequence[dict[str, Any]], first: int, keys: Sequence[str], share: float) -> Batch:
    places, records, rejects = [], [], []
    for number, fields in enumerate(rows, first):
        try:
            records.append(record_of(fields, keys))
            places.append(number)
        except RecordError as error:
            rejects.append(Reject(number, 0, str(error), repr(fields)[:_RAW_CHARACTERS]))
    return _columns(records, places, [0] * len(records), len(rows), 0, rejects, share)


def _columns(
    records: Sequence[Record],
    places: Sequence[int],
    offsets: Sequence[int],
    num_lines: int,
    blanks: int,
    rejects: Sequence[Reject],
    share: float,
) -> Batch:
    keys = range(len(records[0].texts)) if records else ()
    of_keys = [[record.texts[key] for record in records] for key in keys]
    return Batch(
        lines=np.asarray(places, np.int64),
        byte_offsets=np.asarray(offsets, np.int64),
        texts=tuple(
            Texts(list(chain.from_iterable(lists)), np.fromiter(map(len, lists), np.int64, len(lists)))
            for lists in of_keys
        ),
        ids=_column(record.id for record in records),
        sources=_column(record.source for record in records),
        metas=_column(record.meta for record in records),
        num_lines=num_lines,
        blanks=blanks,
        rejects=tuple(rejects),
        share=share,
    )
