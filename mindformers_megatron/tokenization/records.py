"""One line of JSONL: a record with its texts, or the reason why it is none."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import orjson

_JSON_NAMES = {
    dict: "an object",
    list: "a list",
    str: "a string",
    int: "a number",
    float: "a number",
    bool: "a boolean",
    type(None): "null",
}
_KEYS_SHOWN = 8


class RecordError(Exception):
    """A line that is no record; the message is the reason."""


@dataclass(frozen=True, slots=True)
class Record:
    """What a line holds.

    Attributes:
        fields: the whole object.
        texts: for each key asked for, its texts: one, or a list of sentences, each of which becomes a sequence of the
            document.
    """

    fields: dict[str, Any]
    texts: tuple[list[str], ...]

    @property
    def id(self) -> str | None:
        """The record's own ``id``, if it has one that is a string or a number."""
        return id_of(self.fields.get("id"))

    @property
    def meta(self) -> str | None:
        """The record's ``meta`` object as JSON, if it has one that says anything."""
        return meta_of(self.fields.get("meta"))

    @property
    def source(self) -> str | None:
        """Where the record says it comes from: its ``source``, or that of its ``meta``."""
        return source_of(self.fields.get("source"), self.fields.get("meta"))


def id_of(value: Any) -> str | None:
    """The text of an ``id``, None if it is neither a string nor a number."""
    if isinstance(value, str):
        return _as_unicode(value)
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else None


def meta_of(value: Any) -> str | None:
    """The text of a ``meta``, None if it is no object or says nothing."""
    return meta_json(value) if isinstance(value, dict) and value else None


def source_of(value: Any, meta: Any) -> str | None:
    """The name of a ``source``, or of the one in a ``meta``; None if neither is a name."""
    if isinstance(value, str) and value:
        return _as_unicode(value)
    name = meta.get("source") if isinstance(meta, dict) else None
    return _as_unicode(name) if isinstance(name, str) and name else None


def parse_record(line: bytes, keys: Sequence[str]) -> Record:
    """Parses a line.

    Accepts what Python's ``json`` accepts, and Megatron with it: ``NaN`` and ``Infinity`` too. UTF-8 only.

    Args:
        line: the line, with or without its end.
        keys: where the texts are.

    Raises:
        RecordError: it is no JSON object in UTF-8, a key is missing, or what is there is neither text nor a list of
            texts.
    """
    try:
        fields, checked = orjson.loads(line), True
    except orjson.JSONDecodeError:
        fields, checked = _parse_leniently(line), False
    if not isinstance(fields, dict):
        raise RecordError(f"it is {_JSON_NAMES[type(fields)]}, not an object")
    return record_of(fields, keys, checked=checked)


def record_of(fields: dict[str, Any], keys: Sequence[str], *, checked: bool = True) -> Record:
    """Makes a record of an object that has been parsed.

    Args:
        fields: the object.
        keys: where the texts are.
        checked: its texts are known to be Unicode.

    Raises:
        RecordError: a key is missing, or what is there is neither text nor a list of texts.
    """
    texts = tuple(_texts_of(fields, key) for key in keys)
    if not checked:
        for key, found in zip(keys, texts, strict=True):
            _refuse_lone_surrogates(found, key)
    return Record(fields, texts)


def meta_json(meta: dict[str, Any]) -> str:
    """The JSON text under which a record's ``meta`` is kept."""
    try:
        return orjson.dumps(meta).decode()
    except orjson.JSONEncodeError:  # integers beyond 64 bits, lone surrogates
        return json.dumps(meta)


def _texts_of(fields: dict[str, Any], key: str) -> list[str]:
    try:
        value = fields[key]
    except KeyError:
        names = ", ".join(map(repr, list(fields)[:_KEYS_SHOWN])) or "none"
        more = ", …" if len(fields) > _KEYS_SHOWN else ""
        raise RecordError(f"it has no key {key!r} (its keys: {names}{more})") from None
    texts = value if isinstance(value, list) else [value]
    for text in texts:
        if not isinstance(text, str):
            inside = "a list with " if isinstance(value, list) else ""
            found = _JSON_NAMES.get(type(text), f"a {type(text).__name__}")
            raise RecordError(f"{key!r} is {inside}{found}, not a string")
    return texts


def _as_unicode(text: str) -> str:
    return text if text.isascii() else text.encode(errors="backslashreplace").decode()


def _refuse_lone_surrogates(texts: Sequence[str], key: str) -> None:
    # Escapes such as "\ud800" put them there; they are no text, and no tokenizer takes them.
    for text in texts:
        try:
            text.encode()
        except UnicodeEncodeError as error:
            code = ord(text[error.start])
            raise RecordError(f"{key!r} has a lone surrogate \\u{code:04x} at character {error.start + 1:,}") from None


def _parse_leniently(line: bytes) -> Any:
    line = line.rstrip(b"\r\n")
    try:
        text = line.decode()
    except UnicodeDecodeError as error:
        found = line[error.start]
        raise RecordError(f"it is not valid UTF-8: byte 0x{found:02x} at column {error.start + 1:,}") from None
    if "\0" in text:
        raise RecordError(f"it has a NUL byte at column {text.index(chr(0)) + 1:,}")
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise RecordError(f"it is not valid JSON: {error.msg.removesuffix(' at')} at column {error.colno:,}") from None
    except RecursionError:
        raise RecordError("its JSON is nested too deeply") from None
    except ValueError as error:
        raise RecordError(f"it is not valid JSON: {error}") from None
