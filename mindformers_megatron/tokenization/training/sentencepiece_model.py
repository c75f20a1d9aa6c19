"""What a SentencePiece ``.model`` says: its pieces and how it normalizes text.

The file is a protocol buffer (``sentencepiece_model.proto`` of google/sentencepiece). The few fields needed are read
here: the library gives no access to all of them, and its own classes for it need the ``protobuf`` package.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass

from mindformers_megatron.errors import DataError

# Piece.Type of the format.
NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = range(1, 7)
# TrainerSpec.ModelType of the format.
UNIGRAM, BPE = 1, 2
SPACE = "▁"

Fields = dict[int, list["int | bytes"]]


@dataclass(frozen=True, slots=True)
class Piece:
    """An entry of the vocabulary.

    Attributes:
        text: with ``▁`` for a space.
        score: log probability (unigram), or minus its place among the merges (BPE).
        kind: ``NORMAL``, ``UNKNOWN``, ...
    """

    text: str
    score: float
    kind: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SentencePieceModel:
    """A model.

    Attributes:
        pieces: in the order of their ids.
        kind: ``UNIGRAM``, ``BPE``, or another.
        byte_fallback: characters it has no piece for become the pieces of their UTF-8 bytes.
        space_behind: ``▁`` stands behind a word, not before it.
        charsmap: rules of normalization, compiled; empty for none.
        add_dummy_prefix: a space is put before each text.
        remove_extra_whitespaces: those at both ends go, and several become one.
    """

    pieces: tuple[Piece, ...]
    kind: int
    byte_fallback: bool
    space_behind: bool
    charsmap: bytes
    add_dummy_prefix: bool
    remove_extra_whitespaces: bool


def parse_model(data: bytes) -> SentencePieceModel:
    """Reads a ``.model``.

    Raises:
        DataError: it is none.
    """
    try:
        model = _fields(data)
        trainer, normalizer = (_fields(bytes(_last(model, number, b""))) for number in (2, 3))
        return SentencePieceModel(
            pieces=tuple(_piece(bytes(piece)) for piece in model.get(1, [])),
            kind=int(_last(trainer, 3, UNIGRAM)),
            byte_fallback=bool(_last(trainer, 35, 0)),
            space_behind=bool(_last(trainer, 24, 0)),
            charsmap=bytes(_last(normalizer, 2, b"")),
            add_dummy_prefix=bool(_last(normalizer, 3, 1)),
            remove_extra_whitespaces=bool(_last(normalizer, 4, 1)),
        )
    except (ValueError, TypeError, IndexError, struct.error) as error:
        raise DataError(f"this is no SentencePiece model: {error}") from None


def _piece(data: bytes) -> Piece:
    fields = _fields(data)
    (score,) = struct.unpack("<f", bytes(_last(fields, 2, bytes(4))))
    return Piece(bytes(_last(fields, 1, b"")).decode(), score, int(_last(fields, 3, NORMAL)))


def _last(fields: Fields, number: int, default: int | bytes) -> int | bytes:
    return fields[number][-1] if number in fields else default


def _fields(data: bytes) -> Fields:
    """The fields of a message by number: integers, and everything else as bytes."""
    fields: Fields = {}
    for number, value in _entries(data):
        fields.setdefault(number, []).append(value)
    return fields


def _entries(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    position = 0
    while position < len(data):
        key, position = _varint(data, position)
        wire = key & 7
        value: int | bytes
        if wire == 0:
            value, position = _varint(data, position)
        else:
            if wire == 2:
                size, position = _varint(data, position)
            elif wire in (1, 5):
                size = 8 if wire == 1 else 4
            else:
                raise ValueError(f"wire type {wire} at byte {position}")
            value = data[position : position + size]
            if len(value) != size:
                raise ValueError(f"it ends in a field of {size} bytes at byte {position}")
            position += size
        yield key >> 3, value


def _varint(data: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if not byte & 0x80:
            return value, position
        shift += 7
