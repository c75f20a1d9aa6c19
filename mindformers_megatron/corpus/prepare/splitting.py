"""The stage ``splits``: every document goes to one part, with all that must not be parted from it."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import xxhash

from mindformers_megatron.corpus.batch import Batch
from mindformers_megatron.corpus.dedup.spill import Rows
from mindformers_megatron.corpus.documents import Document, Origin, utf8_bytes
from mindformers_megatron.corpus.prepare.exchange import Arrays, Gathered, Room
from mindformers_megatron.corpus.shards import ShardWriter, read_shard
from mindformers_megatron.corpus.split_table import DOCUMENT_ROW, read_split_table, write_split_table
from mindformers_megatron.corpus.splits import SplitOptions


@dataclass(frozen=True, slots=True)
class Split:
    """Assigns documents to parts.

    Attributes:
        options: the parts.
    """

    name: ClassVar[str] = "splits"
    version: ClassVar[int] = 2

    options: SplitOptions = field(default_factory=SplitOptions)

    def settings(self) -> dict[str, Any]:
        """See ``Survey.settings``."""
        sizes = dict(self.options.sizes)
        return {"name": self.name, "version": self.version, "parameters": {"sizes": sizes, "seed": self.options.seed}}

    def gathering(self) -> dict[str, Any]:
        """See ``Survey.gathering``."""
        return {"name": self.name, "version": self.version}

    def gatherer(self) -> "_Keys":
        """See ``Survey.gatherer``."""
        return _Keys()

    def find(self, shards: Sequence[Gathered], room: Room) -> dict[str, Any]:
        """See ``Survey.find``."""
        numbers = {name: number for number, name in enumerate(sorted({given.shard.source for given in shards}))}

        def documents() -> Iterator[Rows]:
            for given in shards:
                arrays = given.load()
                rows = np.empty(arrays["keys"].size, dtype=DOCUMENT_ROW)
                rows["key"], rows["record"] = arrays["keys"], arrays["records"]
                rows["source"] = numbers[given.shard.source]
                yield rows

        counts = write_split_table(room.folder, documents, self.options, sources=len(numbers), bound=room.bound)
        return {"documents": dict(zip(self.options.parts, counts.tolist(), strict=True))}

    def divide(self, found: Path, given: Gathered, outputs: Mapping[str, Path]) -> dict[str, Any]:
        """Writes the documents of a shard to the shards of the parts; returns what each got.

        Args:
            found: the folder that ``find`` has filled.
            given: the shard.
            outputs: where the documents of each part go.
        """
        shard = given.shard
        parts = read_split_table(found).parts_of(given.load()["records"])
        counts = {name: {"documents": 0, "bytes": 0} for name in self.options.parts}
        begin = 0
        with ExitStack() as stack:
            writers = [stack.enter_context(ShardWriter(outputs[name])) for name in self.options.parts]
            for documents in read_shard(shard.path):
                chosen: list[list[Document]] = [[] for _ in writers]
                for document, part in zip(documents, parts[begin : begin + len(documents)].tolist(), strict=True):
                    chosen[part].append(document)
                begin += len(documents)
                for name, writer, some in zip(self.options.parts, writers, chosen, strict=True):
                    writer.add(some)
                    counts[name]["documents"] += len(some)
                    counts[name]["bytes"] += sum(utf8_bytes(document.text) for document in some)
        return {"parts": counts}


class _Keys:
    def __init__(self) -> None:
        self._keys: list[int] = []
        self._continued: list[bool] = []
        self._last: Origin | None = None

    def add(self, batch: Batch) -> None:
        for document in batch.documents:
            self._keys.append(xxhash.xxh3_64_intdigest(document.text.encode("utf-8", "surrogatepass")))
            self._continued.append(document.origin == self._last)
            self._last = document.origin

    def arrays(self) -> Arrays:
        keys = np.array(self._keys, dtype=np.uint64)
        # The pieces of one record stand one after the other; the smallest hash among them stands for it.
        heads = np.flatnonzero(~np.array(self._continued, dtype=np.bool_))
        sizes = np.diff(heads, append=keys.size)
        records = np.repeat(np.minimum.reduceat(keys, heads), sizes) if keys.size else keys
        return {"keys": keys, "records": records}
