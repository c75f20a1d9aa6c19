"""What is wrong within an index: which sequences and documents have no certain place, and why."""

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mindformers_megatron.format.index import Index
from mindformers_megatron.format.slices import IndexSlices
from mindformers_megatron.format.verify.boundaries import MOST_DESCENTS, wrong_boundaries
from mindformers_megatron.format.verify.extents import MOST_CONTRADICTIONS, Contradictions, Explanation, explain
from mindformers_megatron.format.verify.findings import Finding, Kind
from mindformers_megatron.format.verify.spans import Spans, no_spans, spans_of, spans_of_mask, union
from mindformers_megatron.format.verify.tasks import RunTasks, ScanBoundaries, ScanSequences, Task

_SEQUENCES_AT_ONCE = 1 << 20


@dataclass(frozen=True, slots=True)
class IndexDamage:
    """What is wrong with the arrays of an index.

    Attributes:
        findings: all of it, in order; those that concern neighbouring sequences are one.
        documents: the documents concerned.
        located: False if the index is wrong in so many places that none can be named.
        tokens: what the lengths of all sequences add up to.
    """

    findings: tuple[Finding, ...]
    documents: Spans
    located: bool
    tokens: int


def scan_index(index: Index, bin_size: int, tokens_known: int | None, run: RunTasks) -> IndexDamage:
    """Looks at every value of an index.

    Args:
        index: the index.
        bin_size: bytes of ``.bin``.
        tokens_known: how many tokens the pair should have, if that is known.
        run: does the work.
    """
    num_sequences, count = index.num_sequences, len(index.document_indices)
    multimodal = index.sequence_modes is not None
    steps = range(0, num_sequences, _SEQUENCES_AT_ONCE)
    tasks: list[Task] = [
        ScanSequences(index.prefix, multimodal, begin, min(begin + _SEQUENCES_AT_ONCE, num_sequences), bin_size)
        for begin in steps
    ]
    bounds = range(0, count, _SEQUENCES_AT_ONCE)
    tasks += [
        ScanBoundaries(index.prefix, multimodal, begin, min(begin + _SEQUENCES_AT_ONCE, count)) for begin in bounds
    ]
    results = list(run(tasks))
    seen, places = results[: len(steps)], results[len(steps) :]
    tokens = sum(part.tokens for part in seen)
    boundaries = _boundaries(index, np.concatenate(places) if places else np.empty(0, np.int64))
    if boundaries is None or sum(part.contradictions.sequences.size for part in seen) > MOST_CONTRADICTIONS:
        message = "lengths, pointers and document indices contradict each other nearly everywhere; make the pair again"
        return IndexDamage((Finding(kind="pointer", message=message),), no_spans(), False, tokens)
    explanations: tuple[Explanation, ...] = ()
    if seen:
        found = Contradictions.joined([part.contradictions for part in seen])
        explanations = explain(found, num_sequences, index.dtype.itemsize)
        explanations = tuple(_settled(each, tokens_known, index) for each in explanations)
    elif bin_size:
        explanations = (Explanation("size", 0, 0, 0, bin_size),)
    impossible = union([part.impossible for part in seen])
    describe = _Describer(index, boundaries, bin_size)
    findings = [*describe.boundaries(), *describe.sequences(explanations), *describe.impossible(impossible)]
    sequences = union([impossible, *(np.array([[e.begin, e.end]]) for e in explanations if e.begin < e.end)])
    documents = union([describe.documents_of(sequences), describe.documents_at(boundaries)])
    return IndexDamage(tuple(findings), documents, True, tokens)


def _boundaries(index: Index, places: NDArray[np.int64]) -> NDArray[np.int64] | None:
    if places.size > MOST_DESCENTS or len(index.document_indices) == 0:
        return None
    slices = IndexSlices(index)
    return wrong_boundaries(places, slices.documents, len(index.document_indices), index.num_sequences)


def _settled(explanation: Explanation, tokens_known: int | None, index: Index) -> Explanation:
    """Whether the last length or the size of ``.bin`` is wrong, a third witness can tell."""
    if explanation.kind != "size" or explanation.begin == explanation.end or tokens_known is None:
        return explanation
    known = tokens_known * index.dtype.itemsize
    if known == explanation.start:
        return Explanation("size", explanation.end, explanation.end, explanation.start, explanation.stop)
    if known == explanation.stop:
        start = int(index.sequence_pointers[explanation.begin])
        return Explanation("length", explanation.begin, explanation.end, start, explanation.stop)
    return explanation


class _Believed:
    """The document indices with the last good one in place of each wrong one, so that they can be bisected."""

    def __init__(self, index: Index, wrong: NDArray[np.int64]) -> None:
        self._values = index.document_indices
        self._wrong = spans_of(wrong)

    def __len__(self) -> int:
        return len(self._values)

    def __getitem__(self, place: int) -> int:
        span = int(np.searchsorted(self._wrong[:, 1], place, "right"))
        if span < len(self._wrong) and self._wrong[span, 0] <= place:
            place = int(self._wrong[span, 0]) - 1
        return int(self._values[place]) if place >= 0 else 0


class _Describer:
    def __init__(self, index: Index, wrong: NDArray[np.int64], bin_size: int) -> None:
        self._index = index
        self._wrong = wrong
        self._bin_size = bin_size
        self._believed = _Believed(index, wrong)

    def documents_of(self, sequences: Spans) -> Spans:
        """The documents that these sequences are in."""
        return union(
            part for begin, end in sequences.tolist() for part in self._filled(*self._document_range(begin, end))
        )

    def documents_at(self, boundaries: NDArray[np.int64]) -> Spans:
        """The documents on both sides of these boundaries."""
        ranges = np.stack((boundaries - 1, boundaries + 1), 1).clip(0, self._index.num_documents)
        return union([ranges[ranges[:, 0] < ranges[:, 1]]])

    def boundaries(self) -> Iterator[Finding]:
        """What is said of wrong document indices."""
        for begin, end in spans_of(self._wrong).tolist():
            found = int(self._index.document_indices[begin])
            before = self._believed[begin - 1] if begin else 0
            documents = np.clip((begin - 1, end - 1), 0, max(self._index.num_documents - 1, 0)).tolist()
            entries = f"document index {begin:,}" if end == begin + 1 else f"document indices {begin:,} to {end - 1:,}"
            expected = "0" if begin == 0 else f"{before:,} to {self._index.num_sequences:,}, ascending"
            yield Finding(
                kind="boundary",
                message=f"{entries}: found {found:,}, expected {expected}",
                document=documents[0],
                last_document=documents[1],
            )

    def sequences(self, explanations: tuple[Explanation, ...]) -> Iterator[Finding]:
        """What is said of sequences without a certain place."""
        for each in explanations:
            if each.kind == "gap":
                yield Finding(kind="size", message=f"{each.stop:,} bytes of .bin are before the first sequence", byte=0)
            elif each.kind == "size":
                yield self._at("size", self._size(each), each.begin, each.end, None)
            elif each.kind == "length":
                length = int(self._index.sequence_lengths[each.begin])
                room = (each.stop - each.start) // self._index.dtype.itemsize
                what = f"its length is {length:,} tokens, but there are {room:,} up to where the next begins"
                yield self._at("length", what, each.begin, each.end, each.start)
            elif each.kind == "pointer":
                pointer, others = int(self._index.sequence_pointers[each.begin]), each.end - each.begin - 1
                what = f"begins at byte {pointer:,} by its pointer, but what is before it ends at {each.start:,}"
                if others:
                    what += f"; and {others:,} more sequences, up to {each.end - 1:,}"
                yield self._at("pointer", what, each.begin, each.end, each.start)
            else:
                what = f"lengths and pointers of sequences {each.begin:,} to {each.end - 1:,} contradict each other"
                yield self._at("pointer", what, each.begin, each.end, each.start)

    def impossible(self, sequences: Spans) -> Iterator[Finding]:
        """What is said of sequences that cannot be."""
        for begin, end in sequences.tolist():
            pointer, length = int(self._index.sequence_pointers[begin]), int(self._index.sequence_lengths[begin])
            kind: Kind = "length" if length < 0 else "pointer" if pointer < 0 else "size"
            what = f"{length:,} tokens at byte {pointer:,} are not within the {self._bin_size:,} bytes of .bin"
            yield self._at(kind, what, begin, end, pointer if pointer >= 0 else None)

    def _size(self, each: Explanation) -> str:
        end, size = each.start, each.stop
        differ = f"{end - size:,} too few: it was cut off" if size < end else f"{size - end:,} too many"
        doubt = ", or the length of the last sequence is wrong" if each.begin < each.end else ""
        return f".bin has {size:,} bytes, but the index ends at {end:,}: {differ}{doubt}"

    def _at(self, kind: Kind, message: str, begin: int, end: int, byte: int | None) -> Finding:
        if begin == end:
            return Finding(kind=kind, message=message, byte=byte)
        first, last = self._document_range(begin, end)
        return Finding(kind=kind, message=message, document=first, last_document=last - 1, sequence=begin, byte=byte)

    def _filled(self, first: int, last: int) -> Iterator[Spans]:
        """The documents of a range but those that have no sequences: nothing of them can be wrong."""
        if last == first + 1:
            yield np.array([[first, last]])
            return
        for begin in range(first, last, _SEQUENCES_AT_ONCE):
            bounds = IndexSlices(self._index).documents(begin, min(begin + _SEQUENCES_AT_ONCE, last) + 1)
            yield spans_of_mask(np.diff(bounds) != 0, begin)

    def _document_range(self, begin: int, end: int) -> tuple[int, int]:
        most = max(self._index.num_documents - 1, 0)
        first, last = (bisect_right(self._believed, sequence) - 1 for sequence in (begin, end - 1))
        return min(max(first, 0), most), min(max(last, 0), most) + 1
