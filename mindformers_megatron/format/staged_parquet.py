"""A Parquet file that exists whole or not at all, with the columns of provenance among its columns."""

import contextlib
from pathlib import Path
from typing import Any

from mindformers_megatron.format.atomic import StagedFile
from mindformers_megatron.format.staged import Staged


class StagedParquet(Staged):
    """Writes a Parquet file. It appears at the end of the block, and not at all if the block ends in an exception.

    Args:
        path: the file to be.
        schema: the ``pyarrow.Schema``, of which ``provenance.docs_schema()`` is a part.
        exclusive: see ``StagedFile``.
        options: of ``pyarrow.parquet.ParquetWriter``, beside those that all such files share.

    Raises:
        ConfigError: it cannot be created.
    """

    def __init__(self, path: Path, schema: Any, *, exclusive: bool = False, **options: Any) -> None:
        import pyarrow.parquet as pq

        self.schema = schema
        self._staged = StagedFile(path, exclusive=exclusive)
        self._writer = pq.ParquetWriter(
            self._staged.file,
            schema,
            compression="zstd",
            # Lines and offsets grow steadily: their differences pack to a few bits, a dictionary of them is useless.
            use_dictionary=["source", "file"],
            column_encoding={"line": "DELTA_BINARY_PACKED", "byte_offset": "DELTA_BINARY_PACKED"},
            **options,
        )

    def write(self, table: Any) -> None:
        """Writes a row group.

        Args:
            table: a ``pyarrow.Table`` or ``RecordBatch`` of the schema.
        """
        self._writer.write(table, row_group_size=table.num_rows)

    def close(self) -> None:
        """Completes the file and gives it its name."""
        self._writer.close()
        self._staged.commit()

    def abort(self) -> None:
        """Removes what was written; nothing, if the file has its name."""
        # Left open, the writer would write its footer when it is collected, into a file that is closed by then.
        with contextlib.suppress(OSError, ValueError):
            if self._writer.is_open:
                self._writer.close()
        self._staged.discard()
