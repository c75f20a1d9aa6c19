"""``<prefix>.metadata.json``: what the tokens of a pair mean, and where they come from."""

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, TypeVar

from mindformers_megatron.errors import DataError
from mindformers_megatron.format.atomic import write_atomically
from mindformers_megatron.format.fingerprint import fingerprint_of
from mindformers_megatron.format.index import Index
from mindformers_megatron.format.paths import metadata_path, prefix_of

SCHEMA_VERSION = 1
# A file this large lists some 100,000 sources; whatever is larger is not this file.
_MAX_BYTES = 64 << 20

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenizerInfo:
    """What made the tokens.

    Attributes:
        name: as the user gave it.
        kind: its type, as in ``--tokenizer-type``.
        files: name → SHA-256 of each file that decides which ids a text gets.
        library: that defines the ids (``tokenizers``, ``sentencepiece``, ...).
        library_version: of that library.
        engine: that computed them.
        engine_version: of that engine.
        engine_verdict: what was found when its ids were compared with the library's, in words; empty where it is that
            library, None in files of before.
    """

    name: str
    kind: str
    files: Mapping[str, str]
    library: str
    library_version: str
    engine: str
    engine_version: str
    engine_verdict: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceInfo:
    """An input file.

    Attributes:
        path: as the user gave it.
        size: bytes.
        sha256: of the file as it lay on disk; None where it was not hashed.
    """

    path: str
    size: int
    sha256: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Metadata:
    """What is known about a pair beyond its two files.

    Attributes:
        tokenizer: what made the tokens.
        vocab_size: ids the tokenizer has; None if unknown.
        eod_id: the id that ends a document; None if there is none.
        dtype: type of the tokens, NumPy's name.
        documents: empty ones included.
        sequences: entries of the index.
        tokens: in ``.bin``.
        seq_length: the length the pair was made for; None if for any.
        sources: the inputs, in order.
        bin_sha256: of ``.bin``.
        idx_sha256: of ``.idx``.
        options: those that shape the tokens (``append_eod``, ``json_key``), as JSON values; not those that only say how
            the work was done (workers, paths), because these must not change the fingerprint.
        created: time, ISO 8601.
        program_version: of this package.
    """

    tokenizer: TokenizerInfo
    vocab_size: int | None
    eod_id: int | None
    dtype: str
    documents: int
    sequences: int
    tokens: int
    seq_length: int | None = None
    sources: tuple[SourceInfo, ...] = ()
    bin_sha256: str
    idx_sha256: str
    options: Mapping[str, Any] = field(default_factory=dict)
    created: str
    program_version: str

    @property
    def tokenizer_fingerprint(self) -> str:
        """64 hex digits for the meaning of an id: the tokenizer's kind and files, the vocabulary size and the EOD id.

        Equal for pairs that one model can be trained on. Names, versions and the engine do not count: another engine
        that gives other ids is a defect, not another tokenizer.
        """
        return fingerprint_of(self._token_meaning())

    @property
    def fingerprint(self) -> str:
        """64 hex digits for the content of the pair: the tokens, their meaning and the options that shaped them.

        Time, paths, versions, sources and ``seq_length`` do not count: the same tokens made elsewhere are the same.
        """
        content = ("dtype", "documents", "sequences", "tokens", "bin_sha256", "idx_sha256")
        fields = {name: getattr(self, name) for name in content}
        return fingerprint_of({**fields, **self._token_meaning(), "options": dict(self.options)})

    def _token_meaning(self) -> dict[str, object]:
        # The hashes without the names: a renamed copy of a tokenizer is the same tokenizer.
        files = sorted(self.tokenizer.files.values())
        return {"kind": self.tokenizer.kind, "files": files, "vocab_size": self.vocab_size, "eod_id": self.eod_id}

    def to_json(self) -> str:
        """The text of the file."""
        values = {"schema_version": SCHEMA_VERSION, "fingerprint": self.fingerprint, **asdict(self)}
        return json.dumps(values, indent=2, ensure_ascii=False, allow_nan=False) + "\n"

    @classmethod
    def from_json(cls, text: str | bytes, where: str) -> "Metadata":
        """Reads what ``to_json`` wrote.

        Args:
            text: the content of the file.
            where: its name, for errors.

        Raises:
            DataError: the text is no JSON, is of a newer schema, lacks a field, has a value of a wrong type, or was
                changed by hand so that its fingerprint does not fit.
        """
        try:
            values = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise DataError(f"{where}: is not JSON ({error}); remove it, or make the pair again") from None
        fields = _Fields(values, where, "")
        version = fields.get("schema_version", int)
        if version > SCHEMA_VERSION:
            raise DataError(f"{where}: schema version {version}, this program reads up to {SCHEMA_VERSION}; update it")
        if version < 1:
            raise DataError(f"{where}: schema version {version}, expected 1 to {SCHEMA_VERSION}")
        metadata = cls(
            tokenizer=_tokenizer(fields.object("tokenizer")),
            vocab_size=fields.optional("vocab_size", int),
            eod_id=fields.optional("eod_id", int),
            dtype=fields.get("dtype", str),
            documents=fields.get("documents", int),
            sequences=fields.get("sequences", int),
            tokens=fields.get("tokens", int),
            seq_length=fields.optional("seq_length", int),
            sources=tuple(_source(entry) for entry in fields.objects("sources")),
            bin_sha256=fields.get("bin_sha256", str),
            idx_sha256=fields.get("idx_sha256", str),
            options=fields.get("options", dict),
            created=fields.get("created", str),
            program_version=fields.get("program_version", str),
        )
        stated = fields.get("fingerprint", str)
        try:
            computed = metadata.fingerprint
        except (ValueError, RecursionError) as error:  # NaN and the like, which Python's JSON reader lets pass
            raise DataError(f"{where}: options hold what JSON cannot ({error}); restore the file") from None
        if stated != computed:
            raise DataError(
                f"{where}: fingerprint {stated[:16]!r}, but its fields give {computed[:16]!r}; it was edited: restore "
                "it, or make the pair again"
            )
        return metadata


def write_metadata(prefix: str | os.PathLike[str], metadata: Metadata) -> None:
    """Writes ``<prefix>.metadata.json``, whole or not at all. Written last, it says that the pair is complete."""
    # A path that is not Unicode holds lone surrogates; "backslashreplace" happens to write them as JSON escapes do.
    write_atomically(metadata_path(prefix_of(prefix)), metadata.to_json().encode("utf-8", "backslashreplace"))


def read_metadata(prefix: str | os.PathLike[str]) -> Metadata | None:
    """Reads ``<prefix>.metadata.json``; None if there is none, as with every pair made by another program.

    Raises:
        DataError: it cannot be read; see ``Metadata.from_json``.
    """
    path = metadata_path(prefix_of(prefix))
    try:
        with path.open("rb") as file:
            text = file.read(_MAX_BYTES + 1)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror}") from None
    if len(text) > _MAX_BYTES:
        raise DataError(f"{path}: larger than {_MAX_BYTES} bytes; this is no metadata file")
    return Metadata.from_json(text, str(path))


def check_metadata(metadata: Metadata, index: Index) -> None:
    """Compares metadata with the pair it stands beside, in O(1).

    Raises:
        DataError: they contradict each other; names the field and both values.
    """
    pairs = (
        ("dtype", metadata.dtype, index.dtype.name),
        ("documents", metadata.documents, index.num_documents),
        ("sequences", metadata.sequences, index.num_sequences),
        ("tokens", metadata.tokens, index.num_tokens),
    )
    for name, stated, found in pairs:
        if stated != found:
            raise DataError(
                f"{metadata_path(index.prefix)}: {name} {stated!r}, but the pair has {found!r}; it belongs to another "
                "pair: remove it, or make the pair again"
            )


class _Fields:
    """An object of the file, with values taken out by name and type."""

    def __init__(self, values: object, where: str, path: str) -> None:
        self._where, self._path = where, path
        if not isinstance(values, dict):
            raise DataError(f"{where}: {path.rstrip('.') or 'the file'} is {_kind(values)}, expected an object")
        self._values = values

    def get(self, name: str, kind: type[T]) -> T:
        if name not in self._values:
            raise DataError(
                f"{self._where}: no field {self._path}{name}; not written by this program, or cut: remove or rename it"
            )
        value = self._values[name]
        # In Python True is an integer; in JSON it is none.
        if not isinstance(value, kind) or isinstance(value, bool):
            raise DataError(f"{self._where}: {self._path}{name} is {_kind(value)}, expected {_NAMES[kind]}")
        if isinstance(value, int) and value < 0:
            raise DataError(f"{self._where}: {self._path}{name} is {value}, expected 0 or more")
        return value

    def optional(self, name: str, kind: type[T]) -> T | None:
        return None if self._values.get(name, self) is None else self.get(name, kind)

    def object(self, name: str) -> "_Fields":
        return _Fields(self.get(name, dict), self._where, f"{self._path}{name}.")

    def objects(self, name: str) -> list["_Fields"]:
        entries = self.get(name, list)
        return [_Fields(entry, self._where, f"{self._path}{name}[{i}].") for i, entry in enumerate(entries)]

    def texts(self, name: str) -> dict[str, str]:
        entries = self.object(name)
        # Keys are the file's own and go into errors, which are one line.
        for key, value in entries._values.items():
            if not isinstance(value, str):
                raise DataError(f"{self._where}: {name}[{key!r}] is {_kind(value)}, expected a text")
        return entries._values


_NAMES: dict[type, str] = {int: "an integer", str: "a text", dict: "an object", list: "a list"}


def _kind(value: object) -> str:
    return {bool: "true or false", type(None): "null", float: "a fraction"}.get(type(value)) or _NAMES[type(value)]


def _tokenizer(fields: _Fields) -> TokenizerInfo:
    return TokenizerInfo(
        name=fields.get("name", str),
        kind=fields.get("kind", str),
        files=fields.texts("files"),
        library=fields.get("library", str),
        library_version=fields.get("library_version", str),
        engine=fields.get("engine", str),
        engine_version=fields.get("engine_version", str),
        engine_verdict=fields.optional("engine_verdict", str),
    )


def _source(fields: _Fields) -> SourceInfo:
    return SourceInfo(path=fields.get("path", str), size=fields.get("size", int), sha256=fields.optional("sha256", str))
