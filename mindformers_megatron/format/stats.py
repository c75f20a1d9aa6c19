"""What a pair is like in numbers: lengths, ends, and what comes from where."""

import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mindformers_megatron.errors import DataError
from mindformers_megatron.format.index import Index, read_index
from mindformers_megatron.format.mapping import map_file
from mindformers_megatron.format.metadata import read_metadata
from mindformers_megatron.format.paths import bin_path, docs_path, idx_path
from mindformers_megatron.format.provenance import count_docs, open_docs
from mindformers_megatron.format.slices import IndexSlices

_DOCUMENTS = 1 << 18
_ENDS = 1 << 14
# Lengths below are counted one by one; the few documents that are longer are remembered.
_COUNTED = 1 << 22
_MOST_SOURCES = 1000
OTHERS = "(others)"


@dataclass(frozen=True, slots=True)
class LengthBucket:
    """Documents of about the same length.

    Attributes:
        low: the shortest, tokens.
        high: the longest that belong here.
        documents: how many there are.
        tokens: of all of them.
    """

    low: int
    high: int
    documents: int
    tokens: int


@dataclass(frozen=True, slots=True)
class SourceShare:
    """What comes from a source.

    Attributes:
        source: its name.
        documents: how many.
        tokens: of all of them.
    """

    source: str
    documents: int
    tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PairStats:
    """A pair in numbers.

    Attributes:
        prefix: of the pair.
        dtype: type of the tokens, NumPy's name.
        bin_bytes: size of ``.bin``.
        idx_bytes: size of ``.idx``.
        documents: empty ones included.
        empty: documents without tokens.
        sequences: entries of the index.
        tokens: in all.
        shortest: tokens of the shortest document that has any.
        longest: tokens of the longest.
        median: half of the documents that have tokens have no more.
        percentile_90: nine of ten have no more.
        percentile_99: 99 of 100 have no more.
        histogram: by powers of two, from the shortest on.
        eod_id: the id looked for at the ends of documents; None if it is not known.
        ending_in_eod: documents that end with it; None likewise.
        sources: the largest first; None if the pair has no provenance.
    """

    prefix: str
    dtype: str
    bin_bytes: int
    idx_bytes: int
    documents: int
    empty: int
    sequences: int
    tokens: int
    shortest: int
    longest: int
    median: int
    percentile_90: int
    percentile_99: int
    histogram: tuple[LengthBucket, ...]
    eod_id: int | None
    ending_in_eod: int | None
    sources: tuple[SourceShare, ...] | None

    @property
    def filled(self) -> int:
        """Documents that have tokens."""
        return self.documents - self.empty

    @property
    def mean(self) -> float:
        """Tokens of a document that has any."""
        return self.tokens / max(self.filled, 1)

    def to_json(self) -> dict[str, Any]:
        """JSON values."""
        share = None if self.ending_in_eod is None else self.ending_in_eod / max(self.filled, 1)
        return {**asdict(self), "mean": self.mean, "eod_share": share}


def pair_stats(prefix: str | os.PathLike[str], *, eod_id: int | None = None) -> PairStats:
    """Reads the index, one token of each document, and the sources in provenance.

    Args:
        prefix: the pair.
        eod_id: the id to look for at the ends of documents; None: that of the metadata, if there is any.

    Raises:
        DataError: the pair is damaged.
    """
    index = read_index(prefix)
    if eod_id is None and (metadata := read_metadata(index.prefix)) is not None:
        eod_id = metadata.eod_id
    lengths = _Lengths()
    sources = _Sources(index)
    ending = 0
    for first, sizes, ends in _documents(index):
        lengths.add(sizes)
        sources.add(first, sizes)
        if eod_id is not None:
            ending += _count_at(index, ends, eod_id)
    shortest, longest, quantiles = lengths.summary()
    return PairStats(
        prefix=index.prefix,
        dtype=index.dtype.name,
        bin_bytes=bin_path(index.prefix).stat().st_size,
        idx_bytes=idx_path(index.prefix).stat().st_size,
        documents=index.num_documents,
        empty=lengths.empty,
        sequences=index.num_sequences,
        tokens=index.num_tokens,
        shortest=shortest,
        longest=longest,
        median=quantiles[0],
        percentile_90=quantiles[1],
        percentile_99=quantiles[2],
        histogram=lengths.histogram(),
        eod_id=eod_id,
        ending_in_eod=None if eod_id is None else ending,
        sources=sources.shares(),
    )


def _documents(index: Index) -> Iterator[tuple[int, NDArray[np.int64], NDArray[np.int64]]]:
    """(first document, tokens of each, positions in ``.bin`` of the last token of each that has any)."""
    slices = IndexSlices(index)
    position = 0
    for first in range(0, index.num_documents, _DOCUMENTS):
        bounds = slices.documents(first, min(first + _DOCUMENTS, index.num_documents) + 1)
        low, high = int(bounds[0]), int(bounds[-1])
        if (np.diff(bounds) < 0).any() or not 0 <= low <= high <= index.num_sequences:
            raise DataError(_damaged(index))
        lengths = slices.lengths(low, high)
        if lengths.size and int(lengths.min()) < 0:
            raise DataError(_damaged(index))
        sizes = np.diff(np.concatenate(([0], np.cumsum(lengths, dtype=np.int64)))[bounds - low])
        ends = position + np.cumsum(sizes)
        if ends.size and int(ends[-1]) > index.num_tokens:
            raise DataError(_damaged(index))
        yield first, sizes, ends[sizes > 0] - 1
        position = int(ends[-1])


def _damaged(index: Index) -> str:
    return f"{idx_path(index.prefix)}: is damaged; `mfm verify --full {index.prefix}` says where"


def _count_at(index: Index, places: NDArray[np.int64], id_: int) -> int:
    """How many of these tokens are an id."""
    found = 0
    for begin in range(0, places.size, _ENDS):
        # Mapped afresh each time: pages that were touched count as memory in use as long as they are mapped.
        tokens = map_file(bin_path(index.prefix)).view(index.dtype)
        found += int(np.count_nonzero(tokens[places[begin : begin + _ENDS]] == id_))
    return found


class _Lengths:
    def __init__(self) -> None:
        self._counts = np.zeros(0, np.int64)
        self._long: list[NDArray[np.int64]] = []

    def add(self, sizes: NDArray[np.int64]) -> None:
        short = sizes[sizes < _COUNTED]
        counts = np.bincount(short, minlength=self._counts.size)
        counts[: self._counts.size] += self._counts
        self._counts = counts
        self._long.append(sizes[sizes >= _COUNTED])

    @property
    def empty(self) -> int:
        return int(self._counts[0]) if self._counts.size else 0

    def summary(self) -> tuple[int, int, tuple[int, int, int]]:
        """Shortest, longest, and what 50, 90 and 99 % have at most."""
        lengths, counts = self._filled()
        if not lengths.size:
            return 0, 0, (0, 0, 0)
        reached = np.cumsum(counts)
        at = [int(lengths[np.searchsorted(reached, reached[-1] * share)]) for share in (0.5, 0.9, 0.99)]
        return int(lengths[0]), int(lengths[-1]), (at[0], at[1], at[2])

    def histogram(self) -> tuple[LengthBucket, ...]:
        lengths, counts = self._filled()
        if not lengths.size:
            return ()
        powers = range(int(lengths[0]).bit_length() - 1, int(lengths[-1]).bit_length())
        edges = np.searchsorted(lengths, [2**power for power in [*powers, powers[-1] + 1]])
        buckets = []
        for power, begin, end in zip(powers, edges[:-1].tolist(), edges[1:].tolist(), strict=True):
            inside, number = lengths[begin:end], counts[begin:end]
            buckets.append(
                LengthBucket(2**power, 2 ** (power + 1) - 1, int(number.sum()), int((inside * number).sum()))
            )
        return tuple(buckets)

    def _filled(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Lengths that there are, ascending, and how many documents have each; none of them 0."""
        short = np.flatnonzero(self._counts[1:]) + 1
        long, times = np.unique(np.concatenate([np.empty(0, np.int64), *self._long]), return_counts=True)
        return np.concatenate((short, long)), np.concatenate((self._counts[short], times))


class _Sources:
    """Adds up documents and tokens by source, beside the documents."""

    def __init__(self, index: Index) -> None:
        self._shares: dict[str, tuple[int, int]] | None = None
        self._batches: Iterator[Any] = iter(())
        if count_docs(index.prefix) is None:
            return
        rows = count_docs(index.prefix)
        if rows != index.num_documents:
            raise DataError(
                f"{docs_path(index.prefix)}: {rows:,} rows for {index.num_documents:,} documents; it is of another "
                "pair: remove it"
            )
        self._shares = {}
        self._batches = _source_batches(index.prefix)
        self._waiting: Any = None

    def add(self, first: int, sizes: NDArray[np.int64]) -> None:
        if self._shares is None:
            return
        done = 0
        while done < sizes.size:
            if self._waiting is None or not len(self._waiting):
                self._waiting = next(self._batches)
            part = self._waiting.slice(0, sizes.size - done)
            self._waiting = self._waiting.slice(len(part))
            self._count(part.dictionary_encode(), sizes[done : done + len(part)])
            done += len(part)

    def _count(self, encoded: Any, sizes: NDArray[np.int64]) -> None:
        assert self._shares is not None
        codes = encoded.indices.to_numpy(zero_copy_only=False)
        names = encoded.dictionary.to_pylist()
        documents = np.bincount(codes, minlength=len(names))
        tokens = np.bincount(codes, sizes, minlength=len(names))
        for name, more, longer in zip(names, documents.tolist(), tokens.tolist(), strict=True):
            # Where each record names a source of its own, counting them all would take memory without end.
            kept = name if name in self._shares or len(self._shares) < _MOST_SOURCES else OTHERS
            before = self._shares.get(kept, (0, 0))
            self._shares[kept] = before[0] + more, before[1] + int(longer)

    def shares(self) -> tuple[SourceShare, ...] | None:
        if self._shares is None:
            return None
        shares = [SourceShare(name, *counts) for name, counts in self._shares.items()]
        return tuple(sorted(shares, key=lambda share: (-share.tokens, share.source)))


def _source_batches(prefix: str) -> Iterator[Any]:
    with open_docs(prefix) as file:
        for batch in file.iter_batches(columns=["source"]):
            yield batch.column(0)
