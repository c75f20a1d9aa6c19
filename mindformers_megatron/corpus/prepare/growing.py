"""An index of documents of earlier runs: what resembles them is dropped, and what is published joins them.

A run compares with the index while it works, and adds to it when its output stands. Killed before, it leaves the index
as it was; killed in between, the same run adds when it is repeated. Repeated later, it finds its own addition, is
compared with what was there before that, and comes to the same.
"""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import orjson
import xxhash

from mindformers_megatron.corpus.batch import Batch
from mindformers_megatron.corpus.dedup.duplicates import Duplicates
from mindformers_megatron.corpus.dedup.earlier import EarlierDocuments, Nearest, is_redis, open_earlier
from mindformers_megatron.corpus.dedup.near import NearOptions
from mindformers_megatron.corpus.dedup.near_index import Addition
from mindformers_megatron.corpus.prepare.exchange import Gathered
from mindformers_megatron.corpus.steps import sift
from mindformers_megatron.corpus.tally import Drop, Tally
from mindformers_megatron.errors import ConfigError, DataError
from mindformers_megatron.format.atomic import open_atomically, write_atomically

I64 = npt.NDArray[np.int64]
U32 = npt.NDArray[np.uint32]

INDEXED = "indexed.parquet"
REASON = "in_index"
_ADDITION = "addition.json"
# Signatures in memory, while they are looked up.
_AT_ONCE = 1 << 16


@dataclass(frozen=True, slots=True)
class GrowingIndex:
    """An index that a run compares with, and adds to.

    Attributes:
        location: see ``open_earlier``.
        output: what the run publishes; with the documents it says which run this is.
        read_only: nothing is added.
    """

    location: str
    output: Path
    read_only: bool = False

    def open(self, options: NearOptions) -> EarlierDocuments:
        """Opens it."""
        return open_earlier(self.location, options, create=not self.read_only)

    def state(self, options: NearOptions) -> dict[str, Any]:
        """What there is to compare with, as JSON values; what this output has added itself does not count."""
        others = [asdict(one) for one in self.open(options).additions() if one.output != self._published]
        return {"location": self.location if is_redis(self.location) else self._absolute, "additions": others}

    def find(self, shards: Sequence[Gathered], options: NearOptions, folder: Path) -> I64:
        """Finds the documents that resemble earlier ones, and leaves in a folder which these are.

        Returns:
            int64, the numbers of these documents, ascending.

        Raises:
            ConfigError: other documents are published there already, and would be lost.
        """
        index = self.open(options)
        addition = Addition(self._published, _content(shards))
        own = [one for one in index.additions() if one.output == self._published]
        if not self.read_only and own and own[-1] != addition and self.output.exists():
            raise ConfigError(
                f"{self.output}: holds what an earlier run with other documents added to {self._shown}; give this run "
                "an output of its own, or move that one away"
            )
        write_atomically(folder / _ADDITION, orjson.dumps(asdict(addition)))
        return _write_indexed(folder / INDEXED, _found(shards, index, addition))

    def refuse_nothing(self, options: NearOptions, found: Path) -> None:
        """Refuses to publish that nothing is new where something else is published.

        Raises:
            DataError: all documents resemble earlier ones, and what is there is not this run's.
        """
        if self.output.exists() and addition_of(found) not in self.open(options).additions():
            raise DataError(
                f"{self.output}: nothing is new: all documents resemble those of {self._shown}; what is there stays"
            )

    @property
    def _published(self) -> str:
        return str(self.output.absolute())

    @property
    def _absolute(self) -> str:
        return str(Path(self.location).absolute())

    @property
    def _shown(self) -> str:
        # An address may have a password in it.
        return "the index in Redis" if is_redis(self.location) else self.location


class DropAlike:
    """Drops documents, which come in order, that resemble others or earlier ones.

    Args:
        duplicates: of these documents; whole ones.
        indexed: those that resemble earlier ones, by number.
        first: the number of the first document.
    """

    name: ClassVar[str] = "duplicates"
    version: ClassVar[int] = 1

    def __init__(self, duplicates: Duplicates, indexed: Nearest, first: int) -> None:
        self._drops: dict[int, Drop] = {}
        self._following = first
        rows = zip(duplicates.documents.tolist(), duplicates.kept.tolist(), duplicates.similarity.tolist(), strict=True)
        for document, kept, alike in rows:
            self._drops[document] = Drop("duplicate", f"{alike:.2f} like document {kept}")
        for document, id_, alike in zip(indexed.places.tolist(), indexed.ids, indexed.similarity.tolist(), strict=True):
            self._drops[document] = Drop(REASON, f"{alike:.2f} like {id_} of the index")

    def apply(self, batch: Batch, tally: Tally) -> Batch:
        """See ``Step.apply``."""
        first = self._following
        self._following += len(batch)
        return sift(batch, [self._drops.get(number) for number in range(first, self._following)], tally)


def addition_of(found: Path) -> Addition:
    """The addition that a step has noted in its folder."""
    path = found / _ADDITION
    try:
        return Addition(**orjson.loads(path.read_bytes()))
    except (OSError, orjson.JSONDecodeError, TypeError) as error:
        raise DataError(f"{path}: cannot be read ({error}); remove {found.parent}, and it is made again") from None


def forget_indexed(found: Path) -> None:
    """Removes what a step that was compared with an index left in its folder."""
    for name in (INDEXED, _ADDITION):
        (found / name).unlink(missing_ok=True)


def read_indexed(path: Path, first: int, last: int) -> Nearest:
    """Reads which of the documents from ``first`` up to ``last`` (exclusive) resemble earlier ones, by number."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        table = pq.read_table(path, filters=[("document", ">=", first), ("document", "<", last)])
    except (pa.ArrowException, OSError) as error:
        raise DataError(f"{path}: cannot be read: {str(error).splitlines()[0]}") from None
    return _nearest(table)


def indexed_in(path: Path, rows: int) -> Iterator[Nearest]:
    """Yields all of them in order, so many at once."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    with pq.ParquetFile(path) as file:
        for batch in file.iter_batches(batch_size=rows) if file.num_row_groups else ():
            yield _nearest(pa.Table.from_batches([batch]))


def _content(shards: Sequence[Gathered]) -> str:
    """A hash of all documents, however they are cut into shards."""
    content = xxhash.xxh3_128()
    for given in shards:
        content.update(np.ascontiguousarray(given.load()["signatures"]).data)
    return content.hexdigest()


def _found(shards: Sequence[Gathered], index: EarlierDocuments, addition: Addition) -> Iterator[Nearest]:
    for given in shards:
        signatures = given.load()["signatures"]
        for begin in range(0, signatures.shape[0], _AT_ONCE):
            near = index.find(signatures[begin : begin + _AT_ONCE], before=addition)
            yield Nearest(near.places + begin + given.shard.first, near.ids, near.similarity)


def _write_indexed(path: Path, chunks: Iterator[Nearest]) -> I64:
    import pyarrow as pa
    import pyarrow.parquet as pq

    fields = (("document", pa.int64()), ("id", pa.string()), ("similarity", pa.float32()))
    schema = pa.schema([pa.field(name, kind, nullable=False) for name, kind in fields])
    numbers = [np.zeros(0, dtype=np.int64)]
    with open_atomically(path) as file, pq.ParquetWriter(file, schema, compression="zstd") as writer:
        for chunk in chunks:
            if chunk.ids:
                columns = [pa.array(chunk.places), pa.array(chunk.ids, pa.string()), pa.array(chunk.similarity)]
                writer.write_table(pa.Table.from_arrays(columns, schema=schema))
                numbers.append(chunk.places)
    return np.concatenate(numbers)


def _nearest(table: Any) -> Nearest:
    return Nearest(table["document"].to_numpy(), table["id"].to_pylist(), table["similarity"].to_numpy())
