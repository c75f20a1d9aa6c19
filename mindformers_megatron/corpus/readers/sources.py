"""A source: which files it has, in which format, and what of a record is kept."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from mindformers_megatron.corpus.readers.encodings import Encoding, named_encoding
from mindformers_megatron.errors import ConfigError
from mindformers_megatron.tokenization.inputs import InputFile, files_below, find_inputs, without_compression

Format = Literal["jsonl", "parquet", "text", "html"]
Unit = Literal["file", "paragraph", "line"]

_SUFFIXES: dict[Format, tuple[str, ...]] = {
    "jsonl": (".jsonl", ".ndjson", ".json"),
    "parquet": (".parquet", ".pq"),
    "html": (".html", ".htm", ".xhtml"),
    "text": (".txt", ".md", ".rst"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Where documents come from, under the names that its options have in a recipe.

    Attributes:
        name: what its documents are counted, weighted and written under; None: what each record says (its ``source``,
            or that of its ``meta``), and the name of the file if it says nothing.
        paths: files, patterns (``**`` reaches into folders), or folders, which are searched for files by the suffixes
            of the format.
        format: None: by the suffix of each file. A suffix of compression (``.gz .zst .xz .bz2``) does not count; and
            whether a file is compressed is seen from its content.
        text_key: key or column of the text.
        id_key: key or column of the id. Without one a document is called ``<file>:<line>``.
        meta_keys: keys or columns, beside ``meta``, that are kept as fields of ``meta`` if a record has them.
        document: what a document is in plain text: a file, a paragraph (up to a blank line), or a line.
        encoding: None: found out for each file.
    """

    paths: tuple[str, ...]
    name: str | None = None
    format: Format | None = None
    text_key: str = "text"
    id_key: str = "id"
    meta_keys: tuple[str, ...] = ("url",)
    document: Unit = "file"
    encoding: str | None = None

    def __post_init__(self) -> None:
        if not self.paths:
            raise ConfigError("paths is empty; give a file, a folder or a pattern")
        if self.name is not None and (not self.name or "/" in self.name or "\0" in self.name):
            raise ConfigError(f"name is {self.name!r}; it becomes part of file names, so give one without '/'")
        if not self.text_key:
            raise ConfigError("text_key is empty")
        if self.encoding is not None and named_encoding(self.encoding) is None:
            raise ConfigError(
                f"encoding is {self.encoding!r}, which Python does not know; leave it out to have it found out"
            )

    @property
    def fixed_encoding(self) -> Encoding | None:
        """The encoding asked for; None: to be found out."""
        return named_encoding(self.encoding) if self.encoding else None


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file of a source.

    Attributes:
        input: path, size and time of change.
        name: its path below the folder or pattern it was found by; ids of documents without one are made of it.
        format: how it is read.
    """

    input: InputFile
    name: str
    format: Format


def find_files(source: Source) -> list[SourceFile]:
    """Finds the files of a source: paths in the order given, files of a folder or pattern in the order of their names.

    Raises:
        DataError: one is missing or is no regular file, or a folder or pattern has none.
        ConfigError: the format of one is not given and cannot be told.
    """
    files: list[SourceFile] = []
    for path in source.paths:
        folder = Path(path)
        if folder.is_dir():
            found, root = find_inputs(_below(folder, source.format)), folder
        else:
            found, root = find_inputs([path]), _root_of(path)
        files.extend(
            SourceFile(file, _name_below(file.path, root), source.format or _told(file.path)) for file in found
        )
    return files


def _below(folder: Path, format_: Format | None) -> list[Path]:
    every = tuple(suffix for suffixes in _SUFFIXES.values() for suffix in suffixes)
    return files_below(folder, _SUFFIXES[format_] if format_ else every)


def _told(path: Path) -> Format:
    name = without_compression(path.name)
    for format_, suffixes in _SUFFIXES.items():
        if name.endswith(suffixes):
            return format_
    raise ConfigError(f"{path}: its format cannot be told from its name; give format: {', '.join(_SUFFIXES)}")


def _root_of(pattern: str) -> Path:
    if Path(pattern).exists():
        return Path(pattern).parent
    parts = Path(pattern).parts
    fixed = next((place for place, part in enumerate(parts) if any(sign in part for sign in "*?[")), len(parts) - 1)
    return Path(*parts[:fixed])


def _name_below(path: Path, root: Path) -> str:
    return path.relative_to(root).as_posix() if path.is_relative_to(root) else path.name
