"""A part, read: its documents in order, and what is none."""

import re
from collections.abc import Callable, Iterator
from typing import Any

from mindformers_megatron.corpus.documents import Document, Origin
from mindformers_megatron.corpus.readers.encodings import detect_encoding
from mindformers_megatron.corpus.readers.lines import Line, lines_of
from mindformers_megatron.corpus.readers.parquet import read_parquet
from mindformers_megatron.corpus.readers.parts import ReadPart, Slice
from mindformers_megatron.corpus.readers.sources import Source
from mindformers_megatron.corpus.readers.streams import open_stream
from mindformers_megatron.corpus.rejects import Reject, excerpt
from mindformers_megatron.tokenization.inputs import check_unchanged
from mindformers_megatron.tokenization.records import Record, RecordError, parse_record

# A file, or a run of lines without a blank one, that is a document of its own is held in memory whole, some ten times.
_LONGEST = 512 << 20
_DECLARED = re.compile(rb"""<(?:meta\b[^>]*?charset|\?xml\b[^>]*?encoding)\s*=\s*["']?\s*([\w.:-]+)""", re.IGNORECASE)
_HEAD_BYTES = 4096

OnReject = Callable[[Reject], None]


def read_part(part: ReadPart, on_reject: OnReject) -> Iterator[Document]:
    """Yields the documents of a part, in order, in the memory of a few of them.

    Texts of white space alone are documents too; steps drop them.

    Args:
        part: as cut by ``plan_parts``.
        on_reject: told each record that is none (``Rejects.add`` stops after so many).

    Raises:
        DataError: a file is damaged, cut off, or was changed since the parts were planned.
    """
    for piece in part.slices:
        check_unchanged([piece.file.input])
        yield from _read_slice(piece, part.source, on_reject)


def _read_slice(piece: Slice, source: Source, on_reject: OnReject) -> Iterator[Document]:
    if piece.file.format == "parquet":
        return read_parquet(piece, source, on_reject)
    if piece.file.format == "jsonl":
        return _read_jsonl(piece, source, on_reject)
    if piece.file.format == "html" or source.document == "file":
        return _read_whole(piece, source, on_reject)
    return _read_text(piece, source, on_reject)


def _read_jsonl(piece: Slice, source: Source, on_reject: OnReject) -> Iterator[Document]:
    keys = (source.text_key,)
    file = str(piece.file.input.path)
    for line in lines_of(piece, on_reject):
        if line.data.isspace():
            continue
        try:
            record = parse_record(line.data, keys)
        except RecordError as error:
            on_reject(Reject(file, line.number, line.byte_offset, str(error), excerpt(line.data)))
            continue
        (texts,) = record.texts
        yield Document(
            text=texts[0] if len(texts) == 1 else "\n".join(texts),
            id=_id(record, source) or f"{piece.file.name}:{line.number}",
            source=source.name or record.source or piece.file.input.source,
            origin=Origin(file, line.number, line.byte_offset),
            meta=_meta(record, source),
        )


def _id(record: Record, source: Source) -> str | None:
    return record.id if source.id_key == "id" else Record({"id": record.fields.get(source.id_key)}, ()).id


def _meta(record: Record, source: Source) -> dict[str, Any]:
    meta = record.fields.get("meta")
    kept = dict(meta) if isinstance(meta, dict) else {}
    for key in source.meta_keys:
        if (value := record.fields.get(key)) is not None:
            kept.setdefault(key, value)
    return kept


def _read_whole(piece: Slice, source: Source, on_reject: OnReject) -> Iterator[Document]:
    path = piece.file.input.path
    with open_stream(path) as stream:
        data = stream.read(_LONGEST + 1)
    if len(data) > _LONGEST:
        reason = f"it has more than {_LONGEST >> 20} MiB, too much for one document; read it by paragraph or line"
        on_reject(Reject(str(path), 1, 0, reason, excerpt(data)))
        return
    declared = _DECLARED.search(data, 0, _HEAD_BYTES) if piece.file.format == "html" else None
    encoding = piece.encoding or detect_encoding([data], declared=declared[1].decode() if declared else None)
    try:
        text = encoding.decode(data)
    except UnicodeDecodeError as error:
        found = f"byte 0x{data[error.start]:02x} at byte {error.start:,}"
        on_reject(Reject(str(path), 1, 0, f"it is not valid {encoding.name}: {found}", excerpt(data)))
        return
    yield _document(piece, source, text, Line(1, 0, b""), piece.file.name)


def _read_text(piece: Slice, source: Source, on_reject: OnReject) -> Iterator[Document]:
    waiting: list[str] = []
    first: Line | None = None
    size = 0
    for line in lines_of(piece, on_reject):
        try:
            text = line.data.decode()
        except UnicodeDecodeError as error:
            reason = f"it is not valid UTF-8: byte 0x{line.data[error.start]:02x} at column {error.start + 1:,}"
            on_reject(Reject(str(piece.file.input.path), line.number, line.byte_offset, reason, excerpt(line.data)))
            continue
        if text.strip():
            first = first or line
            waiting.append(text)
            size += len(line.data)
            if source.document == "paragraph" and size <= _LONGEST:
                continue
        if first:
            yield _document(piece, source, "".join(waiting).rstrip("\r\n"), first)
            waiting, first, size = [], None, 0
    if first:
        yield _document(piece, source, "".join(waiting).rstrip("\r\n"), first)


def _document(piece: Slice, source: Source, text: str, line: Line, id_: str | None = None) -> Document:
    return Document(
        text=text,
        id=id_ or f"{piece.file.name}:{line.number}",
        source=source.name or piece.file.input.source,
        origin=Origin(str(piece.file.input.path), line.number, line.byte_offset),
    )
