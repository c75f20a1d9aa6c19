"""Texts for the commands about tokenizers: the options that say where they are, and reading them."""

import argparse
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mindformers_megatron.corpus.documents import Document
    from mindformers_megatron.format.metadata import SourceInfo

_SECONDS_BETWEEN_LINES = 10.0
# One part per file: texts are read one after the other.
_WHOLE = 1 << 62


def add_text_arguments(parser: argparse.ArgumentParser, *, unit: str) -> None:
    """The options about input.

    Args:
        parser: of a command.
        unit: what a text is in a plain text file, if nothing is said.
    """
    group = parser.add_argument_group("input")
    group.add_argument(
        "--input",
        nargs="+",
        required=True,
        metavar="FILE",
        help="JSONL, Parquet, plain text or HTML, also compressed; files, folders, or patterns in quotes",
    )
    group.add_argument("--text-key", default="text", metavar="KEY", help="key or column of the text (text)")
    group.add_argument("--format", choices=("jsonl", "parquet", "text", "html"), help="(by the name of each file)")
    group.add_argument(
        "--document",
        choices=("line", "paragraph", "file"),
        default=unit,
        help=f"what a text is in a plain text file ({unit})",
    )
    group.add_argument("--encoding", metavar="NAME", help="(found out for each file)")
    group.add_argument(
        "--on-error",
        type=_rejects_allowed,
        default=0,
        dest="rejects_allowed",
        metavar="fail|skip|N",
        help="at a record that cannot be read: fail, skip it, or skip N (fail)",
    )


class Texts:
    """The documents of the input. May be iterated over more than once; each time the files are read.

    Args:
        args: parsed options.
        verb: what is being done, for the progress on stderr.
        meta_keys: fields, beside ``meta``, that documents keep.

    Raises:
        ConfigError: the format of a file cannot be told.
        DataError: a file is missing.
    """

    def __init__(self, args: argparse.Namespace, verb: str, *, meta_keys: tuple[str, ...] = ()) -> None:
        from mindformers_megatron.corpus.readers.cutting import plan_parts
        from mindformers_megatron.corpus.readers.sources import Source, find_files

        paths = tuple(path for given in args.input for path in _split_list(given))
        self._source = Source(
            paths=paths,
            format=args.format,
            text_key=args.text_key,
            meta_keys=meta_keys,
            document=args.document,
            encoding=args.encoding,
        )
        self._files = [file.input for file in find_files(self._source)]
        self._parts = plan_parts(self._source, part_bytes=_WHOLE)
        self._allowed = args.rejects_allowed
        self._verb = verb
        self._begun = time.monotonic()
        self._seen = {"texts": 0, "characters": 0, "bytes": 0, "rejected": 0}

    def documents(self) -> "Iterator[Document]":
        """Reads the documents.

        Raises:
            DataError: a file is damaged, or there are more records that cannot be read than there may be.
        """
        from mindformers_megatron.corpus.documents import utf8_bytes
        from mindformers_megatron.corpus.readers.reading import read_part
        from mindformers_megatron.corpus.rejects import Rejects

        rejects = Rejects(self._allowed)
        seen = self._seen = dict.fromkeys(self._seen, 0)
        shown = time.monotonic()
        for part in self._parts:
            for document in read_part(part, rejects.add):
                seen["texts"] += 1
                seen["characters"] += len(document.text)
                seen["bytes"] += utf8_bytes(document.text)
                seen["rejected"] = len(rejects.found)
                if time.monotonic() - shown >= _SECONDS_BETWEEN_LINES:
                    shown = time.monotonic()
                    self._show()
                yield document
        seen["rejected"] = len(rejects.found)

    def __iter__(self) -> Iterator[str]:
        return (document.text for document in self.documents())

    @property
    def seen(self) -> dict[str, int]:
        """Texts, characters, bytes (in UTF-8) and rejected records of the last reading."""
        return dict(self._seen)

    @property
    def reading(self) -> dict[str, Any]:
        """How texts are taken from the files."""
        source = self._source
        return {"text_key": source.text_key, "document": source.document, "encoding": source.encoding}

    def sources(self) -> "list[SourceInfo]":
        """The files, with hashes; reads them once more for it."""
        from mindformers_megatron.format.metadata import SourceInfo

        return [SourceInfo(path=str(f.path), size=f.size, sha256=_sha256(f.path)) for f in self._files]

    def _show(self) -> None:
        seen, seconds = self._seen, time.monotonic() - self._begun
        print(
            f"{self._verb}: {seen['texts']:,} texts, {seen['bytes'] / 1e6:,.1f} MB, "
            f"{seen['bytes'] / 1e6 / seconds:,.1f} MB/s",
            file=sys.stderr,
            flush=True,
        )


def _split_list(given: str) -> list[str]:
    """``a.txt,b.txt``, as spm_train takes it; a file that has a comma in its name is left alone."""
    return [given] if "," not in given or Path(given).exists() else given.split(",")


def _sha256(path: Path) -> str:
    from mindformers_megatron.format.hashing import Hashes, hash_file

    hashes = Hashes(sha256=True, md5=False)
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        hash_file(descriptor, hashes)
    finally:
        os.close(descriptor)
    return str(hashes.sha256)


def _rejects_allowed(text: str) -> int | None:
    if text in ("fail", "skip"):
        return 0 if text == "fail" else None
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is none of: fail, skip, a number")
    return int(text)
