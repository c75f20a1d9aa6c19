"""Markers of finished parts, by which a run that was killed goes on."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray

from mindformers_megatron.tokenization.counts import Counts
from mindformers_megatron.tokenization.part_files import PartFiles, tokens_path
from mindformers_megatron.tokenization.parts import Part

_VERSION = 3

Tokens = Sequence[NDArray[Any]]


@dataclass(frozen=True, slots=True)
class EncodedPart:
    """A part that has been encoded.

    Attributes:
        part: the part, without its data.
        fingerprint: what it is marked with when it is finished.
        tokens: under each key, arrays in the type of the pair.
        counts: what was found in it, up to where it was given up.
        first_documents: documents of its first piece.
        last_lines: lines of its last piece.
        given_up: it had more lines that are no records than there may be.
        reused: an earlier run had finished it; its tokens are mapped from where they lie.
    """

    part: Part
    fingerprint: str
    tokens: tuple[Tokens, ...]
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


def write_marker(files: PartFiles, encoded: EncodedPart) -> None:
    """Marks a part as finished, once its files are written and its tokens stand behind those of the part before it.

    The marker appears whole.
    """
    values = {
        "fingerprint": encoded.fingerprint,
        "sizes": [path.stat().st_size for path in files.all(len(encoded.tokens))],
        "tokens": [sum(array.size for array in tokens) for tokens in encoded.tokens],
        "sums": [sum(map(_sum_of, tokens)) % 2**32 for tokens in encoded.tokens],
        "counts": encoded.counts.to_json(),
        "first_documents": encoded.first_documents,
        "last_lines": encoded.last_lines,
    }
    temporary = files.marker.with_name(files.marker.name + ".tmp")
    temporary.write_bytes(orjson.dumps(values))
    temporary.replace(files.marker)


class FinishedParts:
    """The parts that an earlier run has finished: the first ones, up to one that is missing or of other input.

    Those behind that one are of no use, since their tokens stand where others will.

    Args:
        folder: the working folder of the run.
        keys: how many keys there are.
        dtype: type of the tokens.
    """

    def __init__(self, folder: Path, keys: int, dtype: np.dtype[Any]) -> None:
        self._folder = folder
        self._dtype = dtype
        self._ends = [0] * keys
        self._are_over = False

    def take(self, part: Part, fingerprint: str) -> EncodedPart | None:
        """The next part, which must be asked for in order; None if it has to be made."""
        if self._are_over:
            return None
        encoded = self._read(PartFiles(self._folder, part.number), part, fingerprint)
        if encoded is None:
            self._are_over = True
            # Before anything is written over their tokens.
            for marker in self._folder.glob("*.done"):
                if int(marker.name.partition(".")[0]) >= part.number:
                    marker.unlink()
            return None
        self._ends = [end + sum(map(len, of)) for end, of in zip(self._ends, encoded.tokens, strict=True)]
        return encoded

    def _read(self, files: PartFiles, part: Part, fingerprint: str) -> EncodedPart | None:
        # A machine that lost its power may have kept a marker and lost what it speaks of.
        try:
            values = orjson.loads(files.marker.read_bytes())
            if values["fingerprint"] != fingerprint:
                return None
            if values["sizes"] != [path.stat().st_size for path in files.all(len(self._ends))]:
                return None
            tokens = [self._map(key, int(size)) for key, size in enumerate(values["tokens"])]
            if values["sums"] != list(map(_sum_of, tokens)):
                return None
            return EncodedPart(
                without_data(part),
                fingerprint,
                tuple((array,) for array in tokens),
                Counts.from_json(values["counts"]),
                int(values["first_documents"]),
                int(values["last_lines"]),
                reused=True,
            )
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def _map(self, key: int, size: int) -> NDArray[Any]:
        if not size:
            return np.empty(0, self._dtype)
        offset = self._ends[key] * self._dtype.itemsize
        return np.memmap(tokens_path(self._folder, key), self._dtype, "r", offset, (size,))


def without_data(part: Part) -> Part:
    """A part without the lines themselves, for whoever only needs to know which part it is."""
    return Part(part.number, tuple(replace(piece, data=None) for piece in part.pieces))


def _sum_of(tokens: NDArray[Any]) -> int:
    # Modulo 2^32, so that tokens of 32 bits need not be widened, which takes four times as long.
    words = tokens.view(np.uint32) if tokens.itemsize == 4 else tokens
    return int(words.sum(dtype=np.uint32))
