"""What is kept, as one file for other programs."""

import contextlib
import gzip
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import IO, Any

import orjson

from mindformers_megatron.corpus.documents import Document
from mindformers_megatron.corpus.optional import needed
from mindformers_megatron.corpus.prepare.outcome import PartShard
from mindformers_megatron.corpus.shards import read_shard, write_shard
from mindformers_megatron.errors import ConfigError
from mindformers_megatron.format.atomic import open_atomically

_JSONL = (".jsonl", ".jsonl.gz", ".jsonl.zst")
_LEVEL = 3


def check_export(path: Path) -> None:
    """Checks that ``export`` can write this file, to know before the work.

    Raises:
        ConfigError: its name says no format, or its folder is not there.
    """
    if not path.name.endswith((*_JSONL, ".parquet")):
        raise ConfigError(f"{path}: its name says no format; let it end in {', '.join(_JSONL)} or .parquet")
    if not path.parent.is_dir():
        raise ConfigError(f"{path}: there is no folder {path.parent}")


def export(divided: Iterable[PartShard], path: Path) -> int:
    """Writes all documents, in order, whole or not at all; returns how many.

    Lines of JSON have ``id``, ``text``, ``source``, ``meta`` if there is any, and ``origin``: ``file``, ``line`` and
    ``byte_offset`` of the raw record. Parquet has the same as columns.

    Args:
        divided: what is kept.
        path: see ``check_export``.
    """
    check_export(path)
    documents = chain.from_iterable(chain.from_iterable(read_shard(one.shard.path) for one in divided))
    if path.suffix == ".parquet":
        return write_shard(path, documents)
    count = 0
    with _opened(path) as file:
        for document in documents:
            file.write(orjson.dumps(_record(document), option=orjson.OPT_APPEND_NEWLINE))
            count += 1
    return count


def _record(document: Document) -> dict[str, Any]:
    origin = document.origin
    return {
        "id": document.id,
        "text": document.text,
        "source": document.source,
        **({"meta": document.meta} if document.meta else {}),
        "origin": {"file": origin.file, "line": origin.line, "byte_offset": origin.byte_offset},
    }


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[IO[bytes]]:
    with open_atomically(path) as file:
        if path.suffix == ".gz":
            # Neither name nor time: the same documents make the same bytes.
            with gzip.GzipFile(filename="", mode="wb", compresslevel=_LEVEL, fileobj=file, mtime=0) as compressed:
                yield compressed  # type: ignore[misc]
        elif path.suffix == ".zst":
            writer = needed("zstandard", "writing .zst").ZstdCompressor(level=_LEVEL)
            with writer.stream_writer(file, closefd=False) as compressed:
                yield compressed
        else:
            yield file
