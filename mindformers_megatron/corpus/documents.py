"""A document on its way from a raw file to the corpus, and where it came from."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

from mindformers_megatron.tokenization.records import meta_json


@dataclass(frozen=True, slots=True)
class Origin:
    """The place of a raw record, by which it is found again.

    Attributes:
        file: the file, named as it was given.
        line: of the record, from 1; of its first line, if it has several; the row, in Parquet.
        byte_offset: where the record begins in the (uncompressed) file; -1 where a format has no such place.
    """

    file: str
    line: int
    byte_offset: int

    def __str__(self) -> str:
        return f"{self.file}, line {self.line:,}"


@dataclass(frozen=True, slots=True)
class Document:
    """A text with its name and its past. Steps make new ones; only the text, and the id of a piece, ever differ.

    Attributes:
        text: Unicode without lone surrogates.
        id: the record's own, or ``<file>:<line>`` made by the reader.
        source: what it is counted, weighted and written under.
        origin: where the raw record is.
        meta: the record's ``meta``, as it was.
    """

    text: str
    id: str
    source: str
    origin: Origin
    meta: Mapping[str, Any] = field(default_factory=dict)


def meta_to_json(meta: Mapping[str, Any]) -> str | None:
    """JSON text of a document's ``meta``, None if it is empty."""
    return meta_json(dict(meta)) if meta else None


def meta_from_json(text: str | None) -> Mapping[str, Any]:
    """What ``meta_to_json`` made text of."""
    if not text:
        return {}
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:  # an escaped lone surrogate
        return json.loads(text)


def utf8_bytes(text: str) -> int:
    """Bytes of a text in UTF-8."""
    return len(text) if text.isascii() else len(text.encode())
