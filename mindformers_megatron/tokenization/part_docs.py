"""Where the documents of a batch come from, as rows of a pair's provenance."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from mindformers_megatron.format.columns import integer_column, repeated_text, text_column
from mindformers_megatron.format.provenance import docs_schema
from mindformers_megatron.tokenization.batches import Batch
from mindformers_megatron.tokenization.parts import Piece

if TYPE_CHECKING:
    import pyarrow as pa


def sources_of(piece: Piece, batch: Batch) -> list[str] | None:
    """The source of each record; None: that of the piece for all."""
    if piece.is_named or batch.sources is None:
        return None
    return [source or piece.source for source in batch.sources]


def docs_of(piece: Piece, batch: Batch, sources: Sequence[str] | None) -> "pa.RecordBatch":
    """A row of ``docs_schema()`` for each record; lines are numbered as in the batch."""
    import pyarrow as pa

    count = len(batch)
    nothing = pa.nulls(count, pa.string())
    columns = [
        nothing if batch.ids is None else text_column(batch.ids),
        repeated_text(piece.source, count) if sources is None else text_column(sources),
        repeated_text(str(piece.path), count),
        integer_column(batch.lines),
        integer_column(batch.byte_offsets),
        nothing if batch.metas is None else text_column(batch.metas),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=docs_schema())
