"""What was found to repeat what: the result of every kind of deduplication, kept as a Parquet table.

Rows are sorted by document, so that a shard reads its own from a range of document numbers, and a person finds what
became of a document without reading the rest.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from mindformers_megatron.corpus.passages import Unit, remove_passages
from mindformers_megatron.errors import DataError
from mindformers_megatron.format.atomic import open_atomically

I64 = npt.NDArray[np.int64]

# In ``parts``: the document as a whole.
WHOLE = -1


@dataclass(frozen=True, slots=True)
class Duplicates:
    """Documents, or parts of documents, that are dropped, and what is kept instead.

    Attributes:
        documents: int64[R], the number of the document dropped from, ascending.
        parts: int32[R], which of its lines or paragraphs (from 0), or ``WHOLE``.
        kept: int64[R], the document that keeps the text.
        similarity: float32[R], Jaccard similarity of the two; 1 for exact copies. In a cluster held together by
            documents in between it may lie below the threshold.
    """

    documents: I64
    parts: npt.NDArray[np.int32]
    kept: I64
    similarity: npt.NDArray[np.float32]

    def __len__(self) -> int:
        """Returns the number of rows."""
        return self.documents.size


def without_duplicates(
    texts: Sequence[str], duplicates: Duplicates, *, first_document: int, unit: Unit = "line"
) -> list[str | None]:
    """Returns the texts as they go on.

    Args:
        texts: neighbouring documents.
        duplicates: what is dropped of them; rows of other documents are passed over.
        first_document: the number of the first text.
        unit: what ``parts`` count, where they are not the whole.

    Returns:
        For each the text itself, what is left of it, or None where it is dropped (also where only white space is left).
    """
    left: list[str | None] = list(texts)
    first, last = np.searchsorted(duplicates.documents, (first_document, first_document + len(texts)))
    documents, begins = np.unique(duplicates.documents[first:last], return_index=True)
    parts = np.split(duplicates.parts[first:last], begins[1:])
    for place, gone in zip((documents - first_document).tolist(), parts, strict=False):
        text = "" if WHOLE in gone else remove_passages(texts[place], set(gone.tolist()), unit)
        left[place] = text if text.strip() else None
    return left


def write_duplicates(path: Path, chunks: Iterable[Duplicates]) -> int:
    """Writes a table, whole or not at all, one chunk in memory at a time.

    Args:
        path: of the Parquet file.
        chunks: ascending by document, within and between them.

    Returns:
        How many rows it has.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows = 0
    with open_atomically(path) as file, pq.ParquetWriter(file, _schema(), compression="zstd") as writer:
        for chunk in chunks:
            columns = [
                pa.array(chunk.documents),
                pa.array(chunk.parts, mask=chunk.parts == WHOLE),
                pa.array(chunk.kept),
                pa.array(chunk.similarity),
            ]
            writer.write_table(pa.Table.from_arrays(columns, schema=_schema()))
            rows += len(chunk)
    return rows


def read_duplicates(path: Path, first: int = 0, last: int | None = None) -> Duplicates:
    """Reads the rows of the documents from number ``first`` up to ``last`` (exclusive; None: to the end).

    Raises:
        DataError: the file is missing or is no such table.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    wanted = [("document", ">=", first)] + ([] if last is None else [("document", "<", last)])
    try:
        table = pq.read_table(path, filters=wanted)
    except (pa.ArrowException, OSError) as error:
        raise DataError(f"{path}: no table of duplicates: {str(error).splitlines()[0]}") from None
    return _duplicates(path, table)


def duplicates_in(path: Path, rows: int) -> Iterator[Duplicates]:
    """Yields all rows in order, so many at once, after an empty chunk.

    Raises:
        DataError: the file is missing or is no such table.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path) as file:
            yield _duplicates(path, file.schema_arrow.empty_table())
            # Without a row group pyarrow fails where there is nothing to read.
            for batch in file.iter_batches(batch_size=rows) if file.num_row_groups else ():
                yield _duplicates(path, pa.Table.from_batches([batch]))
    except (pa.ArrowException, OSError) as error:
        raise DataError(f"{path}: no table of duplicates: {str(error).splitlines()[0]}") from None


def _duplicates(path: Path, table: Any) -> Duplicates:
    if not table.schema.equals(_schema()):
        raise DataError(f"{path}: columns {table.schema.names}, expected those of a table of duplicates")
    return Duplicates(
        documents=table["document"].to_numpy(),
        parts=table["part"].fill_null(WHOLE).to_numpy(),
        kept=table["kept"].to_numpy(),
        similarity=table["similarity"].to_numpy(),
    )


def _schema() -> Any:
    import pyarrow as pa

    return pa.schema(
        [
            pa.field("document", pa.int64(), nullable=False),
            pa.field("part", pa.int32()),
            pa.field("kept", pa.int64(), nullable=False),
            pa.field("similarity", pa.float32(), nullable=False),
        ]
    )
