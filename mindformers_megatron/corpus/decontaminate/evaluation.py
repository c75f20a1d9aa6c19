"""Evaluation sets: the texts that training must not have seen."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from mindformers_megatron.corpus.passages import Unit, split_with_gaps
from mindformers_megatron.corpus.readers.encodings import detect_encoding
from mindformers_megatron.corpus.readers.streams import open_stream
from mindformers_megatron.errors import ConfigError, DataError

_COMPRESSED = (".gz", ".zst", ".xz", ".bz2")


@dataclass(frozen=True, slots=True)
class EvaluationItem:
    """One question, problem or passage.

    Attributes:
        set_name: the evaluation set it is of.
        label: its file and line, for reports.
        texts: its texts (question, choices, answer); no n-gram reaches from one to the next.
    """

    set_name: str
    label: str
    texts: tuple[str, ...]


def read_evaluation_set(
    path: Path, *, name: str | None = None, keys: Sequence[str] | None = None, unit: Unit = "paragraph"
) -> list[EvaluationItem]:
    """Reads an evaluation set.

    Compressed or not, in any encoding that the readers of raw files know.

    Args:
        path: ``.jsonl`` or ``.ndjson``, an item per line; anything else is plain text.
        name: of the set; None: the file's, up to its first dot.
        keys: fields of JSONL that hold the texts; in lists and objects below them, every string counts. None: all.
        unit: what is an item of plain text: paragraphs, so that n-grams reach across the lines of wrapped text; or
            lines.

    Raises:
        DataError: the file cannot be read, a line is no JSON object or lacks a key, or it has no text at all.
        ConfigError: keys are given for plain text.
    """
    name = path.name.split(".")[0] if name is None else name
    suffixes = [suffix.lower() for suffix in path.suffixes if suffix.lower() not in _COMPRESSED]
    is_jsonl = suffixes[-1:] in ([".jsonl"], [".ndjson"])
    if keys is not None and not is_jsonl:
        raise ConfigError(f"{path}: keys are given, but only .jsonl and .ndjson have keys; rename it or leave them out")
    text = _read(path)
    items = [*(_read_jsonl(path, text, name, keys) if is_jsonl else _read_plain(path, text, name, unit))]
    if not items:
        raise DataError(f"{path}: it has no text; expected evaluation items")
    return items


def _read(path: Path) -> str:
    with open_stream(path) as stream:
        data = stream.read()
    encoding = detect_encoding([data])
    try:
        return encoding.decode(data).replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: byte {error.start:,} is not valid {encoding.name}; convert it first") from None


def _read_jsonl(path: Path, text: str, name: str, keys: Sequence[str] | None) -> Iterator[EvaluationItem]:
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            record = orjson.loads(line)
        except orjson.JSONDecodeError as error:
            raise DataError(f"{path}, line {number}: no JSON ({error})") from None
        if not isinstance(record, dict):
            raise DataError(f"{path}, line {number}: it is {type(record).__name__}, expected an object")
        missing = [key for key in keys or () if key not in record]
        if missing:
            found = ", ".join(map(repr, record)) or "none"
            raise DataError(f"{path}, line {number}: it has no key {missing[0]!r} (its keys: {found})")
        texts = tuple(_strings([record[key] for key in keys] if keys is not None else record))
        if texts:
            yield EvaluationItem(name, f"{path.name}:{number}", texts)


def _read_plain(path: Path, text: str, name: str, unit: Unit) -> Iterator[EvaluationItem]:
    line = 1
    for passage, gap in split_with_gaps(text, unit):
        if passage.strip():
            yield EvaluationItem(name, f"{path.name}:{line}", (passage,))
        line += passage.count("\n") + gap.count("\n")


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _strings(inner)
