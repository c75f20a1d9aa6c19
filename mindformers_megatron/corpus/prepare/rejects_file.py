"""``rejected.jsonl``: the records of all shards that cannot be read."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import orjson

from mindformers_megatron.corpus.prepare.exchange import Shard
from mindformers_megatron.corpus.rejects import Reject
from mindformers_megatron.errors import DataError
from mindformers_megatron.format.atomic import StagedFile

Values = dict[str, Any]


class RejectsFile:
    """Lists the records of all shards that cannot be read, if there are any.

    Args:
        path: of the list.
        allowed: how many there may be; None: any number.
    """

    def __init__(self, path: Path, allowed: int | None) -> None:
        self._path = path
        self._staged = StagedFile(path, exclusive=True)
        self._allowed = allowed
        self._last: Reject | None = None
        self.counts: dict[str, int] = {}

    def noting(self, results: Iterable[Values], shards: Sequence[Shard]) -> Iterator[Values]:
        """Takes in what the results of reading have of them, as they come."""
        for shard, result in zip(shards, results, strict=True):
            for values in result["rejects"]:
                self._last = Reject(**values)
                self._staged.file.write(orjson.dumps(values, option=orjson.OPT_APPEND_NEWLINE))
                self.counts[shard.source] = self.counts.get(shard.source, 0) + 1
            yield result

    def __enter__(self) -> "RejectsFile":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if kind is not None:
            self._staged.discard()
        elif self._last is None:
            self._staged.discard()
            # Those of an earlier run say nothing about this one.
            self._path.unlink(missing_ok=True)
        else:
            self._staged.commit()
            found = sum(self.counts.values())
            if self._allowed is not None and found > self._allowed:
                raise DataError(
                    f"{self._last}; with it {found:,} records cannot be read, and on_error allows {self._allowed:,}; "
                    f"all are in {self._path}"
                )
