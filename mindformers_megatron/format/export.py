"""From a pair to other layouts."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from mindformers_megatron.errors import ConfigError
from mindformers_megatron.format.atomic import open_atomically
from mindformers_megatron.format.convert import Batch, with_rows
from mindformers_megatron.format.documents import read_documents
from mindformers_megatron.format.ids import as_tokens
from mindformers_megatron.format.index import Index, read_index
from mindformers_megatron.format.layouts.columns import write_table
from mindformers_megatron.format.layouts.doc_ends import write_doc_ends
from mindformers_megatron.format.layouts.mspt import CODES, write_mspt
from mindformers_megatron.format.layouts.npz import write_npz
from mindformers_megatron.format.layouts.pickled import write_pickled
from mindformers_megatron.format.metadata import read_metadata
from mindformers_megatron.format.paths import bin_path, idx_path, prefix_of
from mindformers_megatron.format.provenance import count_docs, read_docs
from mindformers_megatron.format.slices import IndexSlices

TABLES = ("parquet", "arrow")
LAYOUTS = ("mspt", "pickle", "npz", "json")
_AT_ONCE = 1 << 20

OnBytes = Callable[[int], None]


def export_table(
    source: str | os.PathLike[str],
    prefix: str | os.PathLike[str],
    kind: str,
    *,
    column: str = "input_ids",
    on_bytes: OnBytes = lambda count: None,
) -> Path:
    """Writes a pair as a table, one row per document, with the columns of its provenance if it has any.

    Args:
        source: the pair.
        prefix: writes ``<prefix>.<kind>``.
        kind: one of ``TABLES``.
        column: where the tokens go.
        on_bytes: told how many bytes of tokens were read since it was last told.

    Returns:
        The file.

    Raises:
        ConfigError: the pair has no documents.
        DataError: it is damaged.
    """
    index = read_index(source)
    if not index.num_documents:
        raise ConfigError(f"{index.prefix}: has no documents, so there is no table to write")
    path = Path(f"{prefix_of(prefix)}.{kind}")
    write_table(path, _batches(index, on_bytes), column, index.dtype, sequences=_has_several(index))
    return path


def export_layout(
    source: str | os.PathLike[str],
    prefix: str | os.PathLike[str],
    layout: str,
    *,
    seq_length: int | None = None,
    on_bytes: OnBytes = lambda count: None,
) -> list[Path]:
    """Writes a pair in a layout that other programs read. Their documents have no sequences, and no provenance.

    Args:
        source: the pair.
        prefix: of the result.
        layout: one of ``LAYOUTS``.
        seq_length: for layouts that name one; None: that of the metadata.
        on_bytes: told how many bytes of tokens were read since it was last told.

    Returns:
        The files.

    Raises:
        ConfigError: it would overwrite the pair, or the layout needs a sequence length and there is none.
        DataError: the pair is damaged, or an id does not fit the layout.
    """
    index, name = read_index(source), prefix_of(prefix)
    if Path(name).resolve() == Path(index.prefix).resolve():
        raise ConfigError(f"{name}: is the pair itself; choose another name for the result")
    metadata = read_metadata(index.prefix)
    seq_length = seq_length or (metadata.seq_length if metadata is not None else None)
    if layout == "mspt" and seq_length is None:
        raise ConfigError(f"{name}: an MSPT index names a sequence length; give it as --seq-length")
    known = {"seq_length": seq_length, "vocab_size": metadata.vocab_size if metadata is not None else None}
    dtype = _layout_type(layout, index.dtype)
    sizes = document_sizes(index)
    tokens, path = bin_path(name), Path(f"{name}.idx.npz") if layout == "npz" else idx_path(name)
    with open_atomically(tokens) as file, open_atomically(path) as index_file:
        _write_tokens(index, file, dtype, on_bytes)
        if layout == "mspt":
            write_mspt(index_file, dtype, sizes, seq_length or 0)
        elif layout == "pickle":
            write_pickled(index_file, sizes, known)
        elif layout == "npz":
            write_npz(index_file, sizes)
        else:
            write_doc_ends(index_file, sizes)
    return [tokens, path]


def document_sizes(index: Index) -> NDArray[np.int64]:
    """int64[D]: tokens of each document."""
    sizes = np.zeros(index.num_documents, np.int64)
    slices = IndexSlices(index)
    for begin in range(0, index.num_documents, _AT_ONCE):
        end = min(begin + _AT_ONCE, index.num_documents)
        bounds = slices.documents(begin, end + 1)
        lengths = slices.lengths(int(bounds[0]), int(bounds[-1]))
        sizes[begin:end] = np.diff(np.concatenate(([0], np.cumsum(lengths, dtype=np.int64)))[bounds - bounds[0]])
    return sizes


def _has_several(index: Index) -> bool:
    """Whether a document has several sequences, so that rows do not say all."""
    slices = IndexSlices(index)
    for begin in range(0, index.num_documents, _AT_ONCE):
        bounds = slices.documents(begin, min(begin + _AT_ONCE, index.num_documents) + 1)
        lengths = slices.lengths(int(bounds[0]), int(bounds[-1]))
        if (np.diff(bounds) > 1).any() or (lengths == 0).any():
            return True
    return False


def _batches(index: Index, on_bytes: OnBytes) -> Iterator[Batch]:
    documents = read_documents(index)
    has_docs = count_docs(index.prefix) == index.num_documents
    pairs = with_rows(documents, read_docs(index.prefix)) if has_docs else ((batch, None) for batch in documents)
    for batch, rows in pairs:
        yield batch, rows
        on_bytes(batch.tokens.nbytes)


def _layout_type(layout: str, dtype: np.dtype[Any]) -> np.dtype[Any]:
    if layout == "mspt":
        return dtype if dtype in CODES.values() else CODES[2]
    # Who reads a pickled index takes 4 bytes a token for granted.
    return np.dtype("<i4") if layout == "pickle" else dtype


def _write_tokens(index: Index, file: BinaryIO, dtype: np.dtype[Any], on_bytes: OnBytes) -> None:
    for batch in read_documents(index):
        first = batch.first
        tokens = as_tokens(batch.tokens, dtype, lambda position, first=first: f"from document {first:,} on")  # type: ignore[misc]
        file.write(tokens.data)
        on_bytes(batch.tokens.nbytes)
