"""Where the rows that reached the model came from: found in the files, not taken from the plan."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from mindformers_megatron.format.reader import IndexedDataset


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """What one corpus gave.

    Attributes:
        name: the corpus.
        weight: its share as asked, of 1.
        rows: rows found in it.
        of: rows looked up.
    """

    name: str
    weight: float
    rows: int
    of: int

    @property
    def delivered(self) -> float:
        """Its share of the rows."""
        return self.rows / self.of if self.of else 0.0

    @property
    def exact(self) -> bool:
        """Whether the rows are as many as the weight asks for, to less than one row."""
        return abs(self.rows - Fraction(str(self.weight)) * self.of) < 1


class Haystack:
    """The tokens of a corpus, to find rows in. Reads the whole corpus: for small ones."""

    def __init__(self, dataset: IndexedDataset, width: int) -> None:
        """Reads a corpus.

        Args:
            dataset: the corpus.
            width: tokens in a row. A window may run over the corpus's end into its beginning, and so must the search.
        """
        tokens = dataset.tokens(0, dataset.num_tokens)
        self._dtype = tokens.dtype
        self._bytes = np.concatenate([tokens, np.resize(tokens, width)]).tobytes()

    def holds(self, row: Sequence[int]) -> bool:
        """Whether the tokens of ``row`` stand one after the other in the corpus."""
        needle = np.asarray(row)
        if not np.array_equal(needle.astype(self._dtype), needle):
            return False
        wanted = needle.astype(self._dtype).tobytes()
        place = self._bytes.find(wanted)
        while place % self._dtype.itemsize and place >= 0:
            place = self._bytes.find(wanted, place + 1)
        return place >= 0


def find_shares(
    rows: Iterable[Sequence[int]], corpora: Mapping[str, IndexedDataset], weights: Mapping[str, float]
) -> tuple[Share, ...]:
    """Looks up each row in the corpora.

    Args:
        rows: token ids, all of one length.
        corpora: the corpora by name.
        weights: the shares asked for, which add up to 1.

    Returns:
        A share for each corpus, in the order of ``corpora``. A row that none holds counts for none, and the shares do
        not add up to 1. One that several hold (a docstring stands in its source file too) counts for that of them which
        is furthest behind its weight.
    """
    listed = list(rows)
    width = len(listed[0]) if listed else 0
    haystacks = {name: Haystack(dataset, width) for name, dataset in corpora.items()}
    found = dict.fromkeys(corpora, 0)
    holders = [[name for name, haystack in haystacks.items() if haystack.holds(row)] for row in listed]
    for names in sorted(filter(None, holders), key=len):
        found[min(names, key=lambda name: found[name] - weights[name] * len(listed))] += 1
    return tuple(Share(name=name, weight=weights[name], rows=count, of=len(listed)) for name, count in found.items())
