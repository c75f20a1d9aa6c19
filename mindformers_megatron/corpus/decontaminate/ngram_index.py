"""The n-grams of evaluation items, looked up in training texts: none is missed, and none is found that is not there.

Texts are compared as in GPT-3 (Brown et al., 2020, appendix C), in lower case, without punctuation and white space; an
n-gram is n words, and n characters in scripts without spaces. Look-up is by 64-bit hash, first in a bit map that turns
nearly all away, then in a sorted array; what is left is compared word by word.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mindformers_megatron.corpus.decontaminate.evaluation import EvaluationItem
from mindformers_megatron.corpus.decontaminate.same_words import same_ngrams
from mindformers_megatron.corpus.ngrams import find_ngrams, find_ngrams_of, whole_hashes
from mindformers_megatron.corpus.words import I64, U64, Words, batches, split_words
from mindformers_megatron.errors import ConfigError

# Bits of the map for each n-gram: one look-up in 32 of what is not there goes on to the sorted array.
_BITS_PER_NGRAM = 32
# Items that are told for one n-gram; more than these share a phrase of the evaluation's own making.
_MOST_ITEMS = 64


@dataclass(frozen=True, slots=True)
class Hits:
    """Where n-grams of evaluation items stand in training documents.

    Attributes:
        documents: int64[H], ascending.
        starts: int64[H], where the n-gram begins, in characters of the document.
        ends: int64[H], where it ends (exclusive).
        ngrams: int64[H], its number in the index.
    """

    documents: I64
    starts: I64
    ends: I64
    ngrams: I64

    def __len__(self) -> int:
        """Returns the number of hits."""
        return self.documents.size

    def chosen(self, rows: npt.NDArray[np.bool_] | I64) -> "Hits":
        """Returns some of the hits."""
        return Hits(self.documents[rows], self.starts[rows], self.ends[rows], self.ngrams[rows])


@dataclass(frozen=True, slots=True)
class _Table:
    """The different n-grams of one length.

    Attributes:
        n: words in each.
        hashes: uint64[G], ascending; equal ones are of different n-grams.
        words: int64[G], the word of the evaluation texts at which each begins (for one of its places).
        bits: the map: bit ``hash % size`` is set.
        first: the number, in the index, of the first of them.
    """

    n: int
    hashes: U64
    words: I64
    bits: npt.NDArray[np.uint8]
    first: int


class NgramIndex:
    """The n-grams of evaluation items.

    Args:
        items: of all evaluation sets.
        ngram: words in an n-gram, 8 to 13 as a rule: 13 in GPT-3, 8 in PaLM.
        shortest: a text of fewer words than ``ngram``, but this many, is looked up as a whole; a shorter one cannot be
            told from chance and is not looked up.

    Attributes:
        items: as given.
        num_ngrams: how many different ones there are.
        item_ngrams: int64[I], how many different ones each item has (of those that count for it).
    """

    def __init__(self, items: Sequence[EvaluationItem], *, ngram: int = 13, shortest: int = 8) -> None:
        if ngram < 1:
            raise ConfigError(f"n-grams of {ngram} words; give 1 or more (8 to 13 is usual)")
        if not 1 <= shortest <= ngram:
            raise ConfigError(f"shortest texts of {shortest} words with n-grams of {ngram}; give 1 to {ngram}")
        self.items = tuple(items)
        self.ngram = ngram
        self._words = split_words([text for item in self.items for text in item.texts])
        text_items = np.repeat(np.arange(len(self.items)), [len(item.texts) for item in self.items])
        self._tables: list[_Table] = []
        owners = []
        for n in range(shortest, ngram + 1):
            hashes, places, texts = self._ngrams_of(n)
            if hashes.size:
                table, numbers = _make_table(self._words, n, hashes, places, self._next_number())
                self._tables.append(table)
                owners.append(np.stack((numbers, text_items[texts])))
        self.num_ngrams = self._next_number()
        self._offsets, self._owners = self._own(np.concatenate([np.zeros((2, 0), dtype=np.int64), *owners], axis=1))
        self.item_ngrams = np.bincount(self._owners, minlength=len(self.items))

    def find(self, texts: Sequence[str], *, first_document: int = 0) -> Hits:
        """Finds all n-grams in texts, those that overlap too.

        Memory: some 100 bytes per character of the largest text.

        Args:
            texts: training documents, any number of them.
            first_document: the number of the first of them.
        """
        parts = [Hits(*np.zeros((4, 0), dtype=np.int64))]
        for batch in batches(texts):
            parts += self._find_in_batch(texts[batch], first_document + batch.start)
        hits = Hits(*(np.concatenate([getattr(part, name) for part in parts]) for name in Hits.__slots__))
        return hits.chosen(np.lexsort((hits.ends, hits.starts, hits.documents)))

    def items_of(self, ngrams: I64) -> tuple[I64, I64]:
        """Returns which items have some n-grams.

        Args:
            ngrams: int64[H], numbers.

        Returns:
            Two arrays of the same size: a place in ``ngrams``, and an item that has the n-gram there.
        """
        sizes = self._offsets[ngrams + 1] - self._offsets[ngrams]
        rows = np.repeat(np.arange(ngrams.size), sizes)
        places = np.arange(rows.size) - np.repeat(np.cumsum(sizes) - sizes, sizes) + self._offsets[ngrams][rows]
        return rows, self._owners[places]

    def _ngrams_of(self, n: int) -> tuple[U64, I64, I64]:
        """Hashes, first words and texts of the n-grams; for less than the full length, of the texts just that short."""
        if n == self.ngram:
            grams = find_ngrams(self._words, n)
            texts = np.repeat(np.arange(grams.offsets.size - 1), np.diff(grams.offsets))
            return grams.hashes, grams.first_words, texts
        texts = np.flatnonzero(np.diff(self._words.offsets) == n)
        return whole_hashes(self._words, texts), self._words.offsets[texts], texts

    def _next_number(self) -> int:
        return self._tables[-1].first + self._tables[-1].hashes.size if self._tables else 0

    def _own(self, owners: npt.NDArray[np.int64]) -> tuple[I64, I64]:
        """The items of each n-gram, one after the other."""
        ngrams, items = unique_pairs(*owners)
        place = np.arange(ngrams.size) - np.searchsorted(ngrams, ngrams)
        ngrams, items = ngrams[place < _MOST_ITEMS], items[place < _MOST_ITEMS]
        return np.searchsorted(ngrams, np.arange(self.num_ngrams + 1)), items

    def _find_in_batch(self, texts: Sequence[str], first_document: int) -> list[Hits]:
        words = split_words(texts)
        found: list[Hits] = []
        if not self._tables:
            return found
        lengths = [table.n for table in self._tables]
        for table, grams in zip(self._tables, find_ngrams_of(words, lengths), strict=True):
            rows, numbers = _look_up(table, grams.hashes)
            places = grams.first_words[rows]
            same = same_ngrams(words, places, self._words, table.words[numbers], table.n)
            places, numbers = places[same], numbers[same]
            documents = np.searchsorted(words.offsets, places, side="right") - 1
            begin = words.text_starts[documents]
            found.append(
                Hits(
                    documents + first_document,
                    words.starts[places] - begin,
                    words.ends[places + table.n - 1] - begin,
                    numbers + table.first,
                )
            )
        return found


def unique_pairs(first: I64, second: I64) -> tuple[I64, I64]:
    """Returns the different pairs of two arrays, ascending."""
    order = np.lexsort((second, first))
    first, second = first[order], second[order]
    new = np.append(True, (first[1:] != first[:-1]) | (second[1:] != second[:-1]))[: first.size]
    return first[new], second[new]


def _make_table(words: Words, n: int, hashes: U64, places: I64, first: int) -> tuple[_Table, I64]:
    """The different n-grams among some, and the number of each."""
    order = np.argsort(hashes, kind="stable")
    groups = np.empty(hashes.size, dtype=np.int64)
    heads: list[I64] = []
    count = 0
    # One round, but for different n-grams with the same hash: those of each round become n-grams of their own.
    while order.size:
        is_head = np.append(True, hashes[order[1:]] != hashes[order[:-1]])
        head = order[is_head]
        mine = np.cumsum(is_head) - 1
        same = is_head.copy()
        rest = np.flatnonzero(~is_head)
        same[rest] = same_ngrams(words, places[order[rest]], words, places[head[mine[rest]]], n)
        groups[order[same]] = mine[same] + count
        heads.append(head)
        count += head.size
        order = order[~same]
    head = np.concatenate(heads)
    by_hash = np.argsort(hashes[head], kind="stable")
    rank = np.empty_like(by_hash)
    rank[by_hash] = np.arange(by_hash.size)
    head = head[by_hash]
    size = 1 << max((head.size * _BITS_PER_NGRAM - 1).bit_length(), 3)
    bits = np.zeros(size // 8, dtype=np.uint8)
    low = hashes[head] & np.uint64(size - 1)
    np.bitwise_or.at(bits, low >> np.uint64(3), np.uint8(1) << (low & np.uint64(7)).astype(np.uint8))
    return _Table(n, hashes[head], places[head], bits, first), rank[groups] + first


def _look_up(table: _Table, hashes: U64) -> tuple[I64, I64]:
    """Places in ``hashes``, and n-grams of the table that have the hash there."""
    low = hashes & np.uint64(table.bits.size * 8 - 1)
    maybe = (table.bits[low >> np.uint64(3)] >> (low & np.uint64(7)).astype(np.uint8)) & np.uint8(1)
    rows = np.flatnonzero(maybe)
    first = np.searchsorted(table.hashes, hashes[rows])
    sizes = np.searchsorted(table.hashes, hashes[rows], side="right") - first
    places = np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    return np.repeat(rows, sizes), np.repeat(first, sizes) + places
