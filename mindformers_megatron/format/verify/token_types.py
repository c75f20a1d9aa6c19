"""Which type and byte order the tokens of a ``.bin`` seem to have, whatever its index says."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mindformers_megatron.format.dtypes import DTYPE_CODES
from mindformers_megatron.format.index import Index
from mindformers_megatron.format.paths import bin_path
from mindformers_megatron.format.positioned import PositionedFile

_BLOCKS = 64
_BLOCK_BYTES = 4096
# No vocabulary is as large; four bytes in the wrong order nearly always are.
_LARGEST_VOCABULARY = 1 << 24
# Of the sampled values, how many must be ids for a type to be believed.
_SURE = 0.999
# By how much of the sample another type must fit better.
_MUCH = 0.5
_MOST_ENDS = 256


@dataclass(frozen=True, slots=True)
class TokenType:
    """A type that tokens may have.

    Attributes:
        dtype: type and byte order.
        ids: share of the sampled values that are ids of the vocabulary, 0 to 1.
        ends: share of the sampled documents that end with EOD; 0 if it is not known.
        largest: the largest id sampled.
    """

    dtype: np.dtype[Any]
    ids: float
    ends: float
    largest: int

    @property
    def name(self) -> str:
        """NumPy's name, with the byte order where it is not the usual one."""
        return f"big-endian {self.dtype.newbyteorder('=').name}" if self.dtype.byteorder == ">" else self.dtype.name

    @property
    def option(self) -> str:
        """How NumPy writes it."""
        return self.dtype.str.lstrip("|") if self.dtype.byteorder == ">" else self.dtype.name


@dataclass(frozen=True, slots=True)
class Judgement:
    """What a sample of the tokens looks like.

    Attributes:
        named: in the type that the index names; None if the tokens do not fill the ``.bin`` in it.
        better: in a type that fits much better; None if there is none.
    """

    named: TokenType | None
    better: TokenType | None


def judge_type(index: Index, bin_size: int, vocab_size: int | None, eod_id: int | None) -> Judgement:
    """Looks for a type that fits the ``.bin`` much better than the one the index names, in O(1).

    A type fits if the tokens that the index counts fill the ``.bin`` and nearly all of a sample of them are ids.

    Args:
        index: the index, which may contradict its ``.bin``.
        bin_size: bytes of ``.bin``.
        vocab_size: ids are below it; None: any number below 2^24 may be one.
        eod_id: the token that documents end with, if that is known.
    """
    tokens, width = _count_tokens(index)
    limit = vocab_size or _LARGEST_VOCABULARY
    candidates = [dtype for dtype in _candidates(index) if tokens and tokens * dtype.itemsize == bin_size]
    if not candidates:
        return Judgement(None, None)
    file = PositionedFile(bin_path(index.prefix))
    last = max(bin_size - _BLOCK_BYTES, 0)
    # In whole values of the widest type, where there is room for one.
    unit = 8 if bin_size >= 8 else 1
    positions = sorted({last * i // (_BLOCKS - 1) // unit * unit for i in range(_BLOCKS)})
    blocks = [file.read(at, min(_BLOCK_BYTES, bin_size - at) // unit * unit) for at in positions]
    ends = [] if eod_id is None else list(_ends(index, tokens, width))
    judged = [_judge(dtype, np.concatenate(blocks), limit, file, ends, eod_id) for dtype in candidates]
    named = next((judgement for judgement in judged if judgement.dtype == index.dtype), None)
    # Of several that fit as well, the one with the smallest ids, and of those the first: bytes in the wrong order, or
    # of fractions, give large ones.
    best = max(judged, key=lambda judged: (judged.ids >= _SURE, judged.ends, -judged.largest, judged.ids))
    much_better = named is None or best.ids - named.ids > _MUCH or best.ends - named.ends > _MUCH
    return Judgement(named, best if best.ids >= _SURE and much_better else None)


def _candidates(index: Index) -> Iterator[np.dtype[Any]]:
    # The usual ones first.
    for code in (8, 4, 5, 1, 3, 2, 7, 6):
        dtype = DTYPE_CODES[code]
        yield dtype
        if dtype.itemsize > 1:
            yield dtype.newbyteorder(">")


def _count_tokens(index: Index) -> tuple[int, int]:
    """(tokens by the last sequence, bytes of a token by the pointers)."""
    if index.num_sequences == 0:
        return 0, index.dtype.itemsize
    width = index.dtype.itemsize
    first, last = int(index.sequence_lengths[0]), int(index.sequence_lengths[-1])
    if index.num_sequences > 1 and first > 0:
        quotient, rest = divmod(int(index.sequence_pointers[1]), first)
        if rest == 0 and quotient in (1, 2, 4, 8):
            width = quotient
    return int(index.sequence_pointers[-1]) // width + last, width


def _ends(index: Index, tokens: int, width: int) -> Iterator[int]:
    """Positions of the last tokens of some documents."""
    documents, sequences = index.num_documents, index.num_sequences
    for document in sorted({documents * i // _MOST_ENDS for i in range(1, _MOST_ENDS + 1)}):
        sequence = int(index.document_indices[document])
        if 0 < sequence < sequences:
            token = int(index.sequence_pointers[sequence]) // width - 1
            if 0 <= token < tokens:
                yield token


def _judge(
    dtype: np.dtype[Any],
    sample: NDArray[np.uint8],
    limit: int,
    file: PositionedFile,
    ends: list[int],
    eod_id: int | None,
) -> TokenType:
    values = sample[: sample.size // dtype.itemsize * dtype.itemsize].view(dtype)
    with np.errstate(invalid="ignore"):
        # Values that are nearly 0 are integers that were taken for floats.
        good = (values >= 0) & (values < limit)
        if dtype.kind == "f":
            good &= values == np.floor(values)
    ids = float(good.mean()) if values.size else 0.0
    largest = int(values[good].max()) if good.any() else 0
    found = [file.read(end * dtype.itemsize, dtype.itemsize).view(dtype)[0] == eod_id for end in ends]
    return TokenType(dtype, ids, float(np.mean(found)) if found else 0.0, largest)
