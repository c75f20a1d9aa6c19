"""Documents of earlier runs, wherever their index is: a folder, or Redis.

Both know whose documents they hold, so that a run that is repeated is compared with what was there before it, and its
own documents do not count against it.
"""

import contextlib
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import parse_qsl, unquote, urlsplit

import numpy as np
import numpy.typing as npt
import orjson

from mindformers_megatron.corpus.dedup.near import NearOptions
from mindformers_megatron.corpus.dedup.near_index import Addition, NearIndex
from mindformers_megatron.corpus.dedup.shared_index import SharedIndex
from mindformers_megatron.corpus.dedup.spill import Bound
from mindformers_megatron.errors import ConfigError
from mindformers_megatron.format.fingerprint import fingerprint_of

I64 = npt.NDArray[np.int64]
U32 = npt.NDArray[np.uint32]
Parts = Iterable[tuple[Sequence[str], U32]]

_SCHEMES = ("redis", "rediss")
_DEFAULT_NAME = "near_duplicates"
_AT_ONCE = 10_000
# Between the addition, the number in it, and the id of a document in Redis.
_BETWEEN = "\0"


@dataclass(frozen=True, slots=True)
class Nearest:
    """Of documents asked for, those that resemble an earlier one, and the one that each resembles most.

    Attributes:
        places: int64[M], places among those asked for, ascending.
        ids: of the earlier documents, M.
        similarity: float32[M], estimated Jaccard similarity.
    """

    places: I64
    ids: list[str]
    similarity: npt.NDArray[np.float32]


class EarlierDocuments(Protocol):
    """An index, open."""

    def additions(self) -> list[Addition]:
        """Whose documents are there as a whole, in the order in which they were added."""
        ...

    def find(self, signatures: U32, *, before: Addition) -> Nearest:
        """Finds documents that were there before those of an addition; in Redis, all but its own."""
        ...

    def claim(self) -> AbstractContextManager[None]:
        """Keeps others from adding, where one adds at a time."""
        ...

    def add(self, parts: Parts, addition: Addition, bound: Bound) -> None:
        """Adds the documents of an addition, in place of those that are there of it; in Redis, to those."""
        ...


def is_redis(location: str) -> bool:
    """Whether an index is in Redis."""
    return urlsplit(location).scheme in _SCHEMES


def open_earlier(location: str, options: NearOptions, *, create: bool) -> EarlierDocuments:
    """Opens an index.

    Args:
        location: a folder; or ``redis://[USER:PASSWORD@]HOST[:PORT][/DATABASE][?index=NAME]``, ``rediss://`` by TLS.
        options: those of the index.
        create: it need not be there.

    Raises:
        ConfigError: it is not there, or was made with other options.
        DataError: it is damaged, or the server cannot be reached.
    """
    if is_redis(location):
        return _InRedis(location, options, create=create)
    return _OnDisk(Path(location), options, create=create)


class _OnDisk:
    def __init__(self, folder: Path, options: NearOptions, *, create: bool) -> None:
        if folder.exists() and not folder.is_dir():
            raise ConfigError(f"{folder}: no folder; an index of near duplicates is one")
        if not create and not folder.is_dir():
            raise ConfigError(f"{folder}: there is no index; it is made by what adds to it")
        self._index = NearIndex(folder, options)

    def additions(self) -> list[Addition]:
        return [addition for addition in self._index.additions if addition is not None]

    def find(self, signatures: U32, *, before: Addition) -> Nearest:
        found = self._index.find(signatures, before=before)
        places, first = np.unique(found.queries, return_index=True)
        return Nearest(places, self._index.ids(found.rows[first]), found.similarity[first])

    def claim(self) -> AbstractContextManager[None]:
        return self._index.claim()

    def add(self, parts: Parts, addition: Addition, bound: Bound) -> None:
        self._index.add(parts, addition=addition, bound=bound)


class _InRedis:
    """Ids carry their addition, so that equal ids of different runs are different documents."""

    def __init__(self, location: str, options: NearOptions, *, create: bool) -> None:
        name, connection = _connection(location)
        self._index = SharedIndex(name, options, connection, create=create)

    def additions(self) -> list[Addition]:
        return [Addition(**orjson.loads(held)) for held in self._index.completed()]

    def find(self, signatures: U32, *, before: Addition) -> Nearest:
        # What a killed run has added of itself counts for nobody.
        counting = {_key(addition) for addition in self.additions()} - {_key(before)}
        places, ids, alike = [], [], []
        for place, near in enumerate(self._index.find([""] * signatures.shape[0], signatures)):
            for held, similarity in near:
                addition, _, numbered = held.partition(_BETWEEN)
                if not numbered or addition in counting:
                    places.append(place)
                    ids.append(numbered.partition(_BETWEEN)[2] or held)
                    alike.append(similarity)
                    break
        return Nearest(np.array(places, dtype=np.int64), ids, np.array(alike, dtype=np.float32))

    def claim(self) -> AbstractContextManager[None]:
        return contextlib.nullcontext()

    def add(self, parts: Parts, addition: Addition, bound: Bound) -> None:
        first = 0
        for ids, signatures in parts:
            for begin in range(0, len(ids), _AT_ONCE):
                some = ids[begin : begin + _AT_ONCE]
                named = [_BETWEEN.join((_key(addition), str(first + n), id_)) for n, id_ in enumerate(some, begin)]
                self._index.add(named, signatures[begin : begin + _AT_ONCE])
            first += len(ids)
        self._index.complete(orjson.dumps(asdict(addition), option=orjson.OPT_SORT_KEYS))


def _key(addition: Addition) -> str:
    return fingerprint_of(asdict(addition))[:16]


def _connection(location: str) -> tuple[str, dict[str, Any]]:
    """The name of an index in Redis, and how to reach the server."""
    parts = urlsplit(location)
    given = dict(parse_qsl(parts.query))
    name = given.pop("index", _DEFAULT_NAME)
    database = parts.path.strip("/")
    try:
        port = parts.port
    except ValueError:
        port = -1
    if not parts.hostname or port == -1 or given or (database and not database.isdecimal()):
        raise ConfigError(
            f"{parts.scheme}://{parts.hostname or ''}{parts.path}: no address of an index; give "
            "redis://HOST:PORT/DATABASE?index=NAME"
        )
    connection: dict[str, Any] = {"host": parts.hostname, "port": port or 6379, "db": int(database or 0)}
    if parts.scheme == "rediss":
        connection["ssl"] = True
    for field in ("username", "password"):
        value = getattr(parts, field)
        if value is not None:
            connection[field] = unquote(value)
    return name, connection
