"""Markers of finished parts, by which a run that was killed goes on."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from mindformers_megatron.tokenization.counts import Counts
from mindformers_megatron.tokenization.part_files import PartFiles
from mindformers_megatron.tokenization.parts import Part

_VERSION = 1


@dataclass(frozen=True, slots=True)
class EncodedPart:
    """A part whose files are complete.

    Attributes:
        part: the part, without its data.
        counts: what was found in it, up to where it was given up.
        first_documents: documents of its first piece.
        last_lines: lines of its last piece.
        given_up: it had more lines that are no records than there may be.
        reused: an earlier run had finished it.
    """

    part: Part
    counts: Counts
    first_documents: int
    last_lines: int
    given_up: bool = False
    reused: bool = False


def part_fingerprint(job: str, part: Part, identities: Mapping[Path, object]) -> str:
    """64 hex digits over all that decides what a part becomes.

    Args:
        job: what is the same for all parts: tokenizer, engine, options.
        part: the part.
        identities: of each input file, what changes when its content does.
    """
    pieces = [
        (str(piece.path.absolute()), piece.start, piece.stop, piece.source, piece.row_group, identities.get(piece.path))
        for piece in part.pieces
    ]
    return hashlib.sha256(repr((_VERSION, job, part.number, pieces)).encode()).hexdigest()


def write_marker(files: PartFiles, sums: Sequence[int], encoded: EncodedPart, fingerprint: str) -> None:
    """Marks a part as finished. The marker appears whole, and last of its files."""
    values = {
        "fingerprint": fingerprint,
        "sizes": [path.stat().st_size for path in files.all(len(sums))],
        "sums": list(sums),
        "counts": encoded.counts.to_json(),
        "first_documents": encoded.first_documents,
        "last_lines": encoded.last_lines,
    }
    temporary = files.marker.with_name(files.marker.name + ".tmp")
    temporary.write_bytes(orjson.dumps(values))
    temporary.replace(files.marker)


def read_marker(files: PartFiles, keys: int, dtype: np.dtype[Any], part: Part, fingerprint: str) -> EncodedPart | None:
    """The finished part that lies there, None if there is none, or one of another input, tokenizer or option.

    A machine that lost its power may have kept a marker and lost what it speaks of; so sizes and sums are compared.
    """
    try:
        values = orjson.loads(files.marker.read_bytes())
        if values["fingerprint"] != fingerprint:
            return None
        if values["sizes"] != [path.stat().st_size for path in files.all(keys)]:
            return None
        if values["sums"] != [_sum_of(files, key, dtype) for key in range(keys)]:
            return None
        counts = Counts.from_json(values["counts"])
        first_documents, last_lines = int(values["first_documents"]), int(values["last_lines"])
        return EncodedPart(without_data(part), counts, first_documents, last_lines, reused=True)
    except (OSError, ValueError, KeyError, TypeError):
        return None


def without_data(part: Part) -> Part:
    """A part without the lines themselves, for whoever only needs to know which part it is."""
    return Part(part.number, tuple(replace(piece, data=None) for piece in part.pieces))


def _sum_of(files: PartFiles, key: int, dtype: np.dtype[Any]) -> int:
    return int(files.read_tokens(key, dtype).sum(dtype=np.int64))
