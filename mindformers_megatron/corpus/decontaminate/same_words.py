"""Whether words are the same, character by character: what stands behind equal hashes."""

import numpy as np
import numpy.typing as npt

from mindformers_megatron.corpus.characters import folded
from mindformers_megatron.corpus.words import I64, Words


def same_ngrams(left: Words, left_words: I64, right: Words, right_words: I64, n: int) -> npt.NDArray[np.bool_]:
    """Returns whether n words from a place on are the same as n words from another place on: bool[P].

    Args:
        left: the words of some texts.
        left_words: int64[P], the first word of each n-gram.
        right: the words of other texts, or of the same.
        right_words: int64[P].
        n: words in each n-gram, 1 or more.
    """
    same = np.ones(left_words.size, dtype=np.bool_)
    rows = np.arange(left_words.size)
    for place in range(n if rows.size else 0):
        same[rows] = _same_words(left, left_words[rows] + place, right, right_words[rows] + place)
        rows = rows[same[rows]]
    return same


def _same_words(left: Words, left_words: I64, right: Words, right_words: I64) -> npt.NDArray[np.bool_]:
    left_starts, right_starts = left.starts[left_words], right.starts[right_words]
    lengths = left.ends[left_words] - left_starts
    same = lengths == right.ends[right_words] - right_starts
    rows = np.flatnonzero(same)
    if rows.size:
        lengths = lengths[rows]
        first = np.cumsum(lengths) - lengths
        inside = np.arange(lengths.sum()) - np.repeat(first, lengths)
        left_codes = left.codes[np.repeat(left_starts[rows], lengths) + inside]
        right_codes = right.codes[np.repeat(right_starts[rows], lengths) + inside]
        # No word is empty: every row has a character of its own to begin with.
        same[rows] = np.logical_and.reduceat(folded()[left_codes] == folded()[right_codes], first)
    return same
