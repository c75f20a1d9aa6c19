"""Document order: no document is cut that fits a sample.

A document of more than ``seq_length + 1`` tokens is cut into chunks that fill a row each, neighbours sharing one
token so that every label is predicted once; what is left of it, and every shorter document, is packed best-fit with
others; the rest of a row is padding. Documents of one token have nothing to predict and are left out.

The packing is a table over lengths (see ``packing``); of the documents only an order by length is kept, 4 or 8 bytes
each. Which documents share a row is drawn anew in every epoch: a keyed permutation among those of equal length.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mindformers_megatron.format.index import Index
from mindformers_megatron.sampling.keys import U64, derive_key, words_at
from mindformers_megatron.sampling.packing import pack
from mindformers_megatron.sampling.permutation import permute, unpermute
from mindformers_megatron.sampling.pieces import Pieces, ranges

I64 = npt.NDArray[np.int64]


def document_extents(index: Index, begin: int, end: int) -> tuple[I64, I64]:
    """First token and length of the documents ``begin`` to ``end``: int64[D] each, in tokens."""
    sequences = index.document_indices[begin : end + 1]
    edges = np.empty(sequences.size, dtype=np.int64)
    inside = sequences < index.sequence_pointers.size
    edges[inside] = index.sequence_pointers[sequences[inside]] // index.dtype.itemsize
    edges[~inside] = index.num_tokens
    return edges[:-1], np.diff(edges)


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentOrder:
    """Which tokens are the k-th sample of one corpus, documents kept whole.

    Attributes:
        seq_length: L.
        seed: The run's seed.
        name: The corpus's name; its order depends on (seed, name).
        shuffle: Whether an epoch's samples are permuted, and the documents in packed rows with them.
        num_tokens: Tokens that count in the loss in one epoch.
        long_start: int64[C], first token of the documents that fill rows alone.
        long_rows: int64[C + 1], cumulative rows of those.
        short_start: int64[S], first tokens of the items that are packed, ordered by length.
        length_first: int64[L + 2 + 1], where the items of each length begin in ``short_start``.
        group_rows: int64[G + 1], cumulative rows of the packed groups.
        group_items: int64[G + 1], where the items of each group begin in ``items``.
        items: int64[I, 3], (length, first, each) as in ``packing.Group``.
    """

    seq_length: int
    seed: int
    name: str
    shuffle: bool
    num_tokens: int
    long_start: I64
    long_rows: I64
    short_start: I64
    length_first: I64
    group_rows: I64
    group_items: I64
    items: I64

    @classmethod
    def build(
        cls, index: Index, begin: int, end: int, *, seq_length: int, seed: int, name: str, shuffle: bool
    ) -> "DocumentOrder":
        """Builds the order of the documents ``begin`` to ``end``: one pass over their lengths."""
        width = seq_length + 1
        start, length = document_extents(index, begin, end)
        # A chunk of width tokens predicts seq_length labels; the next one starts with the last of them.
        rows = np.maximum(length - 1, 0) // seq_length
        alone = rows > 0
        rest = length - rows * seq_length
        packed = np.flatnonzero(rest > 1)
        by_length = packed[np.argsort(rest[packed], kind="stable")]
        counts = np.bincount(rest[packed], minlength=width + 1)
        groups = pack(counts, width)
        return cls(
            seq_length=seq_length,
            seed=seed,
            name=name,
            shuffle=shuffle,
            num_tokens=int(np.maximum(length - 1, 0).sum()),
            long_start=start[alone],
            long_rows=np.concatenate(([0], np.cumsum(rows[alone]))),
            short_start=(start + rows * seq_length)[by_length],
            length_first=np.concatenate(([0], np.cumsum(counts))),
            group_rows=np.concatenate(([0], np.cumsum([group.rows for group in groups]))).astype(np.int64),
            group_items=np.concatenate(([0], np.cumsum([len(group.items) for group in groups]))).astype(np.int64),
            items=np.array([item for group in groups for item in group.items], dtype=np.int64).reshape(-1, 3),
        )

    @property
    def epoch_length(self) -> int:
        """Samples in one epoch."""
        return int(self.long_rows[-1] + self.group_rows[-1])

    def pieces(self, cursors: I64) -> Pieces:
        """Returns what the k-th samples of the corpus are made from, any k ≥ 0."""
        epochs, rows = np.divmod(cursors, self.epoch_length)
        if self.shuffle:
            rows = permute(rows, self.epoch_length, self._row_keys(epochs))
        packed = np.flatnonzero(rows >= self.long_rows[-1])
        alone = np.flatnonzero(rows < self.long_rows[-1])
        owner, start, length = self._packed_pieces(rows[packed] - self.long_rows[-1], epochs[packed])
        document = np.searchsorted(self.long_rows, rows[alone], side="right") - 1
        chunk = rows[alone] - self.long_rows[document]
        row = np.concatenate((alone, packed[owner]))
        start = np.concatenate((self.long_start[document] + chunk * self.seq_length, start))
        length = np.concatenate((np.full(alone.size, self.seq_length + 1), length))
        order = np.argsort(row, kind="stable")
        row, start, length = row[order], start[order], length[order]
        ends = np.cumsum(length)
        filled = np.bincount(row, weights=length, minlength=cursors.size).astype(np.int64)
        before = np.concatenate(([0], np.cumsum(filled)))[row]
        return Pieces(row=row, column=ends - length - before, start=start, length=length, counted=filled - 1)

    def containing(self, begin: int, end: int, epochs: int) -> I64:
        """Returns the cursors of the samples of the first ``epochs`` epochs that hold a token of ``[begin, end)``."""
        # Documents overlap by the token that two chunks share, so the rows of all chunks are looked at one by one.
        chunks = np.diff(self.long_rows)
        document = np.repeat(np.arange(chunks.size), chunks)
        start = self.long_start[document] + (np.arange(document.size) - self.long_rows[document]) * self.seq_length
        alone = np.flatnonzero((start < end) & (start + self.seq_length + 1 > begin))
        length = np.repeat(np.arange(self.length_first.size - 1), np.diff(self.length_first))
        item = np.flatnonzero((self.short_start < end) & (self.short_start + length > begin))
        epoch = np.repeat(np.arange(epochs, dtype=np.int64), item.size)
        item = np.tile(item, epochs)
        slot = item - self.length_first[length[item]]
        if self.shuffle:
            sizes = self.length_first[length[item] + 1] - self.length_first[length[item]]
            slot = unpermute(slot, sizes, self._item_keys(epoch, length[item]))
        packed = np.array(
            [self._row_of(size, place) for size, place in zip(length[item].tolist(), slot.tolist(), strict=True)],
            dtype=np.int64,
        )
        rows = np.concatenate((np.tile(alone, epochs), packed))
        epoch = np.concatenate((np.repeat(np.arange(epochs, dtype=np.int64), alone.size), epoch))
        if self.shuffle:
            rows = unpermute(rows, self.epoch_length, self._row_keys(epoch))
        return np.unique(epoch * self.epoch_length + rows)

    def _row_of(self, length: int, slot: int) -> int:
        """The row that holds the ``slot``-th item of a length."""
        kinds = np.flatnonzero(self.items[:, 0] == length)
        first = self.items[kinds, 1]
        kind = kinds[np.argsort(first)][np.searchsorted(np.sort(first), slot, side="right") - 1]
        group = int(np.searchsorted(self.group_items, kind, side="right")) - 1
        within = (slot - int(self.items[kind, 1])) // int(self.items[kind, 2])
        return int(self.long_rows[-1] + self.group_rows[group]) + within

    def _row_keys(self, epochs: I64) -> U64:
        key = np.array(derive_key("document", self.seed, self.name, "rows"), dtype=np.uint64)
        return words_at(key, epochs.astype(np.uint64))

    def _item_keys(self, epochs: I64, lengths: I64) -> U64:
        key = np.array(derive_key("document", self.seed, self.name, "items"), dtype=np.uint64)
        return words_at(words_at(key, epochs.astype(np.uint64)), lengths.astype(np.uint64))

    def _packed_pieces(self, rows: I64, epochs: I64) -> tuple[I64, I64, I64]:
        """Returns (place in ``rows``, first token, length) of every item of packed rows."""
        group = np.searchsorted(self.group_rows, rows, side="right") - 1
        kinds = self.group_items[group + 1] - self.group_items[group]
        owner = np.repeat(np.arange(rows.size), kinds)
        length, first, each = self.items[ranges(self.group_items[group], kinds)].T
        rank = first + (rows - self.group_rows[group])[owner] * each
        owner, length, rank = np.repeat(owner, each), np.repeat(length, each), ranges(rank, each)
        if self.shuffle:
            sizes = self.length_first[length + 1] - self.length_first[length]
            rank = permute(rank, sizes, self._item_keys(epochs[owner], length))
        return owner, self.short_start[self.length_first[length] + rank], length
