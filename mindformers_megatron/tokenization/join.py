"""Joining finished parts, in order, into the pairs of a run."""

from collections.abc import Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import orjson

from mindformers_megatron.errors import DataError
from mindformers_megatron.format.atomic import StagedFile
from mindformers_megatron.format.columns import integer_column, integers_of
from mindformers_megatron.format.provenance import DocsWriter
from mindformers_megatron.format.writer import WrittenPair
from mindformers_megatron.tokenization.counts import Counts
from mindformers_megatron.tokenization.growing_pair import GrowingPair
from mindformers_megatron.tokenization.part_files import PartFiles, Reject, tokens_path
from mindformers_megatron.tokenization.part_markers import EncodedPart, write_marker
from mindformers_megatron.tokenization.parts import Piece


class Joiner:
    """The outputs of a run while they grow. Nothing of them is readable before ``publish``.

    As a context manager it throws away at the end of the block what has not been published.

    Args:
        prefixes: the pairs, one per key.
        dtype: type of their tokens.
        folder: the working folder of the run, which need not be there yet.
        rejects_path: where lines that are no records are listed.
        rejects_allowed: how many there may be; None: any number.
        md5: take MD5 of the pairs too.

    Raises:
        ConfigError: a file cannot be written, or another process is writing it.
    """

    def __init__(
        self,
        prefixes: Sequence[str],
        dtype: np.dtype[Any],
        folder: Path,
        *,
        rejects_path: Path,
        rejects_allowed: int | None,
        md5: bool = True,
    ) -> None:
        self.counts = Counts()
        self._folder = folder
        self._rejects_path = rejects_path
        self._rejects_allowed = rejects_allowed
        self._lines_before = 0
        with ExitStack() as stack:
            self._pairs = [
                stack.enter_context(closing(GrowingPair(prefix, dtype, tokens_path(folder, key), md5=md5)))
                for key, prefix in enumerate(prefixes)
            ]
            self._docs: list[DocsWriter] = []
            for prefix in prefixes:
                self._docs.append(DocsWriter(prefix))
                stack.callback(self._docs[-1].abort)
            self._rejects = StagedFile(rejects_path, exclusive=True)
            stack.callback(self._rejects.discard)
            self._stack = stack.pop_all()

    def add(self, encoded: EncodedPart) -> None:
        """Appends a part, and marks it as finished.

        Raises:
            DataError: there are now more lines that are no records than there may be; names the last of them.
        """
        files = PartFiles(self._folder, encoded.part.number)
        pieces = encoded.part.pieces
        # Nobody has counted the lines before a part that begins in the midst of a file, but here they are known.
        lines_before = self._lines_before if pieces[0].first_line is None else 0
        if encoded.counts.rejects:
            self._add_rejects(pieces, lines_before, files)
        for key, (pair, tokens) in enumerate(zip(self._pairs, encoded.tokens, strict=True)):
            pair.append(tokens, *files.read_index(key), in_place=encoded.reused)
        if not encoded.reused:
            write_marker(files, encoded)
        docs = files.read_docs()
        if lines_before and docs.num_rows:
            docs = _renumbered(docs, lines_before, encoded.first_documents)
        for docs_writer in self._docs:
            docs_writer.add_table(docs)
        self._lines_before = encoded.last_lines + (lines_before if len(pieces) == 1 else 0)
        self.counts.add(encoded.counts)

    def publish(self) -> list[WrittenPair]:
        """Completes the outputs and gives them their names.

        Raises:
            DataError: there is not one token under a key. The format has no such pair.
        """
        for pair in self._pairs:
            if pair.num_tokens == 0:
                raise DataError(f"{pair.prefix}: no tokens in {self.counts.documents:,} documents; nothing was written")
        written = [pair.publish() for pair in self._pairs]
        for docs in self._docs:
            docs.close()
        if self.counts.rejects:
            self._rejects.commit()
        else:
            # That of an earlier run says nothing about this one.
            self._rejects_path.unlink(missing_ok=True)
        return written

    def __enter__(self) -> "Joiner":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._stack.close()

    def _add_rejects(self, pieces: Sequence[Piece], lines_before: int, files: PartFiles) -> None:
        seen = self.counts.rejects
        for place, reject in files.read_rejects():
            path = pieces[place].path
            line = reject.line + (0 if place else lines_before)
            entry = {
                "file": str(path),
                "line": line,
                "byte_offset": reject.byte_offset,
                "reason": reject.reason,
                "raw": reject.raw,
            }
            self._rejects.file.write(orjson.dumps(entry, option=orjson.OPT_APPEND_NEWLINE))
            seen += 1
            if self._rejects_allowed is not None and seen > self._rejects_allowed:
                if self._rejects_allowed:
                    self._rejects.commit()
                raise DataError(self._verdict(path, line, reject))

    def _verdict(self, path: Path, line: int, reject: Reject) -> str:
        place = f"{path}, line {line:,} (byte {reject.byte_offset:,}): {reject.reason}"
        if self._rejects_allowed == 0:
            return f"{place}; mend it, or pass --on-error skip to leave such lines out"
        return f"{place}; --on-error allows {self._rejects_allowed} bad lines, and all are in {self._rejects_path}"


def _renumbered(docs: Any, lines_before: int, count: int) -> Any:
    lines = integers_of(docs["line"])
    lines[:count] += lines_before
    return docs.set_column(docs.schema.get_field_index("line"), docs.schema.field("line"), [integer_column(lines)])
