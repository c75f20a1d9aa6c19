"""Writing a pair as MindRecord, for programs that read nothing else."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from mindspore.mindrecord import FileWriter
from numpy.typing import NDArray

from mindformers_megatron.errors import ConfigError, DataError
from mindformers_megatron.format.documents import DocumentBatch, read_documents
from mindformers_megatron.format.ids import as_tokens
from mindformers_megatron.format.index import Index, read_index

_INT32 = np.dtype("<i4")
# A row must fit into a page of 32 MiB, with what is said about it.
_MOST_TOKENS = (32 << 20) // 4 - 1024
_ROWS_AT_ONCE = 1 << 10


def write_mindrecord(
    source: str | os.PathLike[str],
    path: Path,
    *,
    seq_length: int | None = None,
    column: str = "input_ids",
    on_bytes: Callable[[int], None] = lambda count: None,
) -> int:
    """Writes the tokens of a pair as rows of int32.

    Args:
        source: the pair.
        path: the file; ``<path>.db`` is written beside it.
        seq_length: rows are windows of so many tokens and one more, each beginning with the last token of the one
            before; what is left at the end is left out. None: a row for each document that has tokens.
        column: its name.
        on_bytes: told how many bytes of tokens were read since it was last told.

    Returns:
        The number of rows.

    Raises:
        ConfigError: there would be no row, or one too long for MindRecord.
        DataError: the pair is damaged, or MindRecord cannot be written.
    """
    index = read_index(source)
    batches = _batches(index, on_bytes)
    rows = _documents(index, batches) if seq_length is None else _windows(index, batches, seq_length)
    files = (path, path.with_name(path.name + ".db"))
    for file in files:
        file.unlink(missing_ok=True)
    count = 0
    try:
        writer: Any = FileWriter(str(path), shard_num=1)
        writer.add_schema({column: {"type": "int32", "shape": [-1]}}, "token ids")
        waiting: list[dict[str, NDArray[Any]]] = []
        for row in rows:
            waiting.append({column: row})
            if len(waiting) == _ROWS_AT_ONCE:
                count += _write(writer, waiting)
                waiting = []
        count += _write(writer, waiting)
        if not count:
            raise ConfigError(f"{index.prefix}: {index.num_tokens:,} tokens give no row; choose a shorter --seq-length")
        writer.commit()
    except RuntimeError as error:
        _remove(files)
        raise DataError(f"{path}: MindRecord cannot be written: {str(error).strip().splitlines()[-1]}") from None
    except BaseException:
        _remove(files)
        raise
    return count


def _remove(files: tuple[Path, ...]) -> None:
    for file in files:
        file.unlink(missing_ok=True)


def _write(writer: Any, rows: list[dict[str, NDArray[Any]]]) -> int:
    if rows:
        writer.write_raw_data(rows)
    return len(rows)


def _batches(index: Index, on_bytes: Callable[[int], None]) -> Iterator[DocumentBatch]:
    for batch in read_documents(index):
        yield batch
        on_bytes(batch.tokens.nbytes)


def _documents(index: Index, batches: Iterator[DocumentBatch]) -> Iterator[NDArray[Any]]:
    for batch in batches:
        tokens = _as_int32(index, batch.first, batch.tokens)
        edges = batch.edges()
        for place in np.flatnonzero(np.diff(edges)).tolist():
            row = tokens[edges[place] : edges[place + 1]]
            if row.size > _MOST_TOKENS:
                raise ConfigError(
                    f"{index.prefix}: document {batch.first + place:,} has {row.size:,} tokens, but a row of "
                    f"MindRecord holds {_MOST_TOKENS:,}; write windows: --seq-length"
                )
            yield row


def _windows(index: Index, batches: Iterator[DocumentBatch], seq_length: int) -> Iterator[NDArray[Any]]:
    if not 1 <= seq_length < _MOST_TOKENS:
        raise ConfigError(f"--seq-length is {seq_length}; give 1 to {_MOST_TOKENS - 1:,}")
    left = np.empty(0, _INT32)
    for batch in batches:
        left = np.concatenate((left, _as_int32(index, batch.first, batch.tokens)))
        count = max((left.size - 1) // seq_length, 0)
        for start in range(0, count * seq_length, seq_length):
            yield left[start : start + seq_length + 1]
        left = left[count * seq_length :]


def _as_int32(index: Index, first: int, tokens: NDArray[Any]) -> NDArray[Any]:
    return as_tokens(tokens, _INT32, lambda position: f"{index.prefix}: from document {first:,} on")
