"""Looking at the tokens of documents whose place is certain."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mindformers_megatron.format.index import Index, map_index
from mindformers_megatron.format.paths import bin_path
from mindformers_megatron.format.positioned import PositionedFile
from mindformers_megatron.format.slices import IndexSlices
from mindformers_megatron.format.verify.findings import SHOWN
from mindformers_megatron.format.verify.spans import Spans, complement, spans_of
from mindformers_megatron.format.verify.tasks import OnBytes

# Read at once.
_PIECE_BYTES = 1 << 23


@dataclass(frozen=True, slots=True)
class TokenRules:
    """What the tokens of a sound pair are like.

    Attributes:
        vocab_size: ids are below it; None if that is not known.
        eod_id: every document that has tokens ends with it; None if that is not so.
    """

    vocab_size: int | None
    eod_id: int | None


@dataclass(frozen=True, slots=True)
class BadToken:
    """A token that breaks a rule: the first of its document that does.

    Attributes:
        document: number of the document.
        sequence: number of the sequence.
        token: position within the document.
        byte: position in ``.bin``.
        value: what is there.
    """

    document: int
    sequence: int
    token: int
    byte: int
    value: int | float


@dataclass(frozen=True, slots=True)
class TokensSeen:
    """What was found in a stretch of documents.

    Attributes:
        bad_ids: documents with tokens that are no ids.
        bad_ends: documents that do not end with EOD.
        inner_ends: documents with a sequence that ends with EOD and is not their last.
        ids: the first few of the bad ids.
        ends: the first few of the bad ends.
        largest: the largest id that was seen; -1 if none was.
    """

    bad_ids: Spans
    bad_ends: Spans
    inner_ends: Spans
    ids: tuple[BadToken, ...]
    ends: tuple[BadToken, ...]
    largest: int


@dataclass(frozen=True, slots=True)
class ScanTokens:
    """Looks at the tokens of documents ``[begin, end)`` but those in ``skipped``."""

    prefix: str
    multimodal: bool
    begin: int
    end: int
    skipped: Spans
    rules: TokenRules

    def run(self, on_bytes: OnBytes) -> TokensSeen:
        """See ``Task``."""
        index = map_index(self.prefix, multimodal=self.multimodal)
        seen = _Seen(index, self.rules)
        file = PositionedFile(bin_path(index.prefix))
        for begin, end in complement(self.skipped, self.begin, self.end).tolist():
            seen.scan(file, begin, end, on_bytes)
        return seen.result()


class _Seen:
    def __init__(self, index: Index, rules: TokenRules) -> None:
        self._slices = IndexSlices(index)
        self._dtype = index.dtype
        self._rules = rules
        self._bad_ids: list[NDArray[np.int64]] = []
        self._bad_ends: list[NDArray[np.int64]] = []
        self._inner_ends: list[NDArray[np.int64]] = []
        self._ids: list[BadToken] = []
        self._ends: list[BadToken] = []
        self._largest = -1

    def scan(self, file: PositionedFile, begin: int, end: int, on_bytes: OnBytes) -> None:
        """Looks at documents that lie one behind the other."""
        stretch = _Stretch.read(self._slices, begin, end, self._dtype.itemsize)
        width, size = self._dtype.itemsize, _PIECE_BYTES // self._dtype.itemsize
        for start in range(0, stretch.num_tokens, size):
            stop = min(start + size, stretch.num_tokens)
            data = file.read(stretch.byte + start * width, (stop - start) * width)
            tokens = data.view(self._dtype)
            self._check_ids(stretch, start, tokens)
            if self._rules.eod_id is not None:
                self._check_ends(stretch, start, tokens)
            on_bytes(data.size)

    def result(self) -> TokensSeen:
        def spans(parts: list[NDArray[np.int64]]) -> Spans:
            return spans_of(np.concatenate([np.empty(0, np.int64), *parts]))

        return TokensSeen(
            spans(self._bad_ids),
            spans(self._bad_ends),
            spans(self._inner_ends),
            tuple(self._ids),
            tuple(self._ends),
            self._largest,
        )

    def _check_ids(self, stretch: "_Stretch", start: int, tokens: NDArray[Any]) -> None:
        limit = self._rules.vocab_size
        if tokens.dtype.kind == "f":
            if limit is None:
                return
            with np.errstate(invalid="ignore"):
                bad = ~((tokens >= 0) & (tokens < limit) & (tokens == np.floor(tokens)))
            places = np.flatnonzero(bad)
        else:
            largest = int(tokens.max())
            self._largest = max(self._largest, largest)
            signed = tokens.dtype.kind == "i"
            if (limit is None or largest < limit) and not (signed and int(tokens.min()) < 0):
                return
            bad = tokens < 0 if signed else np.zeros(tokens.size, bool)
            if limit is not None and limit <= np.iinfo(tokens.dtype).max:
                bad |= tokens >= limit
            places = np.flatnonzero(bad)
        self._note(stretch, start, tokens, places, self._bad_ids, self._ids)

    def _check_ends(self, stretch: "_Stretch", start: int, tokens: NDArray[Any]) -> None:
        for ends, found, bad in (
            (stretch.document_ends, self._bad_ends, True),
            (stretch.inner_ends, self._inner_ends, False),
        ):
            low, high = np.searchsorted(ends, (start, start + tokens.size))
            places = ends[low:high] - start
            places = places[(tokens[places] != self._rules.eod_id) == bad]
            self._note(stretch, start, tokens, places, found, self._ends if bad else [])

    def _note(
        self,
        stretch: "_Stretch",
        start: int,
        tokens: NDArray[Any],
        places: NDArray[np.int64],
        documents: list[NDArray[np.int64]],
        described: list[BadToken],
    ) -> None:
        if not places.size:
            return
        # Documents without tokens begin where the next one does; the last that begins there has the token.
        numbers, first = np.unique(
            np.searchsorted(stretch.document_starts, places + start, "right") - 1, return_index=True
        )
        documents.append(numbers + stretch.document)
        for number, place in zip(numbers.tolist(), places[first].tolist(), strict=True):
            if len(described) == SHOWN:
                return
            document = number + stretch.document
            if described and described[-1].document == document:
                continue
            token = place + start
            described.append(
                BadToken(
                    document=document,
                    sequence=stretch.sequence + int(np.searchsorted(stretch.sequence_starts, token, "right")) - 1,
                    token=token - int(stretch.document_starts[number]),
                    byte=stretch.byte + token * self._dtype.itemsize,
                    value=tokens[place].item(),
                )
            )


@dataclass(frozen=True, slots=True)
class _Stretch:
    """Documents one behind the other. Positions are counted in tokens from the first of them.

    Attributes:
        document: number of the first.
        sequence: number of its first sequence.
        byte: where it begins in ``.bin``.
        num_tokens: of all.
        document_starts: int64[D].
        sequence_starts: int64[S].
        document_ends: last tokens of those documents that have any, ascending.
        inner_ends: last tokens of sequences that are not the last of their document, ascending.
    """

    document: int
    sequence: int
    byte: int
    num_tokens: int
    document_starts: NDArray[np.int64]
    sequence_starts: NDArray[np.int64]
    document_ends: NDArray[np.int64]
    inner_ends: NDArray[np.int64]

    @classmethod
    def read(cls, slices: IndexSlices, begin: int, end: int, itemsize: int) -> "_Stretch":
        bounds = slices.documents(begin, end + 1)
        first, last = int(bounds[0]), int(bounds[-1])
        starts = np.concatenate(([0], np.cumsum(slices.lengths(first, last), dtype=np.int64)))
        edges = starts[bounds - first]
        # A token ends a document if it is the last before one of its edges.
        ends = edges[1:][edges[1:] > edges[:-1]] - 1
        inner = starts[1:][starts[1:] > starts[:-1]] - 1
        return cls(
            document=begin,
            sequence=first,
            byte=int(slices.pointers(first, first + 1)[0]) if first < last else 0,
            num_tokens=int(starts[-1]),
            document_starts=edges[:-1],
            sequence_starts=starts[:-1],
            document_ends=ends,
            inner_ends=np.setdiff1d(inner, ends, assume_unique=True),
        )
