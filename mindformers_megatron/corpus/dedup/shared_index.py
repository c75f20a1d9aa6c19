"""An index of near duplicates in Redis, for several writers at once: a ``datasketch.MinHashLSH``.

For a stream of documents that several machines take part in. A corpus that is all there is compared faster by
``near.py``, and exactly.

Several writers get one result, whatever the timing, if all add their documents first, and look them up when all are
done; of documents that resemble each other, the one whose id sorts first is then kept (``superseded``). Who looks up
and adds in turn keeps the first comer, and may keep two that come at the same moment.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import orjson

from mindformers_megatron.corpus.dedup.minhash import SCHEME, coefficients, is_empty, similarity
from mindformers_megatron.corpus.dedup.near import NearOptions
from mindformers_megatron.corpus.optional import needed
from mindformers_megatron.errors import ConfigError, DataError

U32 = npt.NDArray[np.uint32]

# Documents whose requests travel together.
_BATCH = 1000


class SharedIndex:
    """An index that lives in Redis under a name.

    Ids and band contents are stored as bytes; nothing that is read from Redis is unpickled.

    Args:
        name: of the index; all who use the name share it.
        options: ``threshold``, ``ngram``, ``permutations``, ``seed`` and the bands must be those of the index, if it
            exists.
        redis: how to connect: ``host``, ``port``, ``password`` and whatever else ``redis.Redis`` takes.
        create: make the index, if it is not there.

    Raises:
        ConfigError: ``redis`` is not installed, the index is not there, or it was made with other options.
        DataError: the server cannot be reached.
    """

    def __init__(self, name: str, options: NearOptions, redis: Mapping[str, Any], *, create: bool = True) -> None:
        try:
            import redis as client
        except ImportError:
            raise ConfigError(
                "a shared index needs redis, which is not installed: pip install 'mindformers-megatron[redis]'"
            ) from None
        self.options = options
        self._bands = options.chosen_bands()
        self._where = f"Redis at {redis.get('host', 'localhost')}:{redis.get('port', 6379)}, index {name}"
        self._error = client.RedisError
        self._client = client.Redis(**redis)
        self._completed_key = f"{name}_completed".encode()
        self._check_options(name, create=create)
        self._lsh = needed("datasketch", "a shared index").MinHashLSH(
            num_perm=options.permutations,
            params=(self._bands.count, self._bands.rows),
            storage_config={"type": "redis", "basename": name.encode(), "redis": dict(redis)},
            # Unpickling what a server holds would run whatever stands there.
            prepickle=False,
        )

    def add(self, ids: Sequence[str], signatures: U32) -> None:
        """Adds documents; adding one again changes nothing.

        Args:
            ids: of the documents.
            signatures: uint32[D, K], from ``minhash.sign``; documents without words are left out.
        """
        make = needed("datasketch", "a shared index").MinHash
        permutations = np.array(coefficients(self.options.permutations, self.options.seed))
        try:
            with self._lsh.insertion_session(buffer_size=_BATCH) as session:
                for place in np.flatnonzero(~is_empty(signatures)):
                    sketch = make(hashvalues=signatures[place], permutations=permutations, scheme=SCHEME)
                    session.insert(ids[place].encode(), sketch, check_duplication=False)
        except self._error as error:
            raise DataError(f"{self._where}: {error}") from None

    def find(self, ids: Sequence[str], signatures: U32) -> list[list[tuple[str, float]]]:
        """Finds documents of the index, other than themselves, at least as similar as the threshold.

        Args:
            ids: of the documents asked for.
            signatures: uint32[D, K].

        Returns:
            For each the ids and estimated similarities, the highest first.
        """
        found: list[list[tuple[str, float]]] = []
        try:
            for first in range(0, len(ids), _BATCH):
                found += self._find(ids[first : first + _BATCH], signatures[first : first + _BATCH])
        except self._error as error:
            raise DataError(f"{self._where}: {error}") from None
        return found

    def complete(self, addition: bytes) -> None:
        """Notes that an addition, under whatever name, is there as a whole; again, it changes nothing."""
        try:
            if addition not in self.completed():
                self._client.rpush(self._completed_key, addition)
        except self._error as error:
            raise DataError(f"{self._where}: {error}") from None

    def completed(self) -> list[bytes]:
        """Returns the additions that are there as a whole, in the order in which they became so."""
        try:
            return list(self._client.lrange(self._completed_key, 0, -1))
        except self._error as error:
            raise DataError(f"{self._where}: {error}") from None

    def clear(self) -> None:
        """Removes the index from the server."""
        try:
            for storage in (self._lsh.keys, *self._lsh.hashtables):
                if keys := list(storage):
                    storage.remove(*keys)
            self._client.delete(self._options_key, self._completed_key)
        except self._error as error:
            raise DataError(f"{self._where}: {error}") from None

    def _find(self, ids: Sequence[str], signatures: U32) -> list[list[tuple[str, float]]]:
        used = self._bands.count * self._bands.rows
        # The bytes of a band in the order in which datasketch makes its keys of them.
        bands = signatures[:, :used].astype(">u4").reshape(len(ids), self._bands.count, self._bands.rows)
        asked = np.flatnonzero(~is_empty(signatures)).tolist()
        candidates: list[set[bytes]] = [set() for _ in ids]
        for number, table in enumerate(self._lsh.hashtables):
            keys = [bands[place, number].tobytes() for place in asked]
            for place, members in zip(asked, table.getmany(*keys), strict=True):
                candidates[place].update(members)
        wanted = sorted(set().union(*candidates))
        held = dict(zip(wanted, self._lsh.keys.getmany(*wanted), strict=True)) if wanted else {}
        # In the precision of what it is compared with: a similarity of 7/10 reaches 0.7.
        threshold = float(np.float32(self.options.threshold))
        found = []
        for id_, signature, near in zip(ids, signatures, candidates, strict=True):
            # A document that was added twice has its bands twice, and one that is being added may have none yet.
            theirs = {other: b"".join(held[other][: self._bands.count]) for other in sorted(near - {id_.encode()})}
            theirs = {other: signed for other, signed in theirs.items() if len(signed) == 4 * used}
            rows = np.frombuffer(b"".join(theirs.values()), dtype=">u4").reshape(-1, used)
            alike = similarity(rows, signature[None, :used]).tolist()
            close = [
                (-value, other.decode(errors="replace"))
                for other, value in zip(theirs, alike, strict=True)
                if value >= threshold
            ]
            found.append([(other, -value) for value, other in sorted(close)])
        return found

    def _check_options(self, name: str, *, create: bool) -> None:
        identity = self.options.index_options()
        self._options_key = f"{name}_options".encode()
        try:
            if create:
                self._client.set(self._options_key, orjson.dumps(identity), nx=True)
            held = orjson.loads(self._client.get(self._options_key) or b"null")
        except (self._error, orjson.JSONDecodeError) as error:
            raise DataError(f"{self._where}: {error}") from None
        if held is None:
            raise ConfigError(f"{self._where}: there is none; it is made by what adds to it")
        for field, value in identity.items():
            if not isinstance(held, dict) or held.get(field) != value:
                raise ConfigError(
                    f"{self._where}: made with other options ({held}); asked for is {field} {value}; an index keeps "
                    "its options"
                )


def superseded(ids: Sequence[str], found: Sequence[Sequence[tuple[str, float]]]) -> list[bool]:
    """Returns whether each document gives way to one that resembles it and whose id sorts before its own."""
    return [any(other < id_ for other, _ in near) for id_, near in zip(ids, found, strict=True)]
