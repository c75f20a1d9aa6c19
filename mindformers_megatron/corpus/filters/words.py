"""The step ``blocked_words``: texts with words of a list."""

import functools
import unicodedata
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from mindformers_megatron.corpus.batch import Batch
from mindformers_megatron.corpus.characters import LETTER, kinds
from mindformers_megatron.corpus.filters.lists import read_list
from mindformers_megatron.corpus.optional import needed
from mindformers_megatron.corpus.steps import sift
from mindformers_megatron.corpus.tally import Drop, Tally
from mindformers_megatron.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockedWords:
    """Drops texts that have words or phrases of a list in them, regardless of case and width.

    A word in a script with spaces counts as a whole word only; in Chinese and Japanese, wherever it stands. Any number
    of words is found in one pass (Aho and Corasick, 1975).

    Attributes:
        words: the words.
        lists: files with one word or phrase a line; blank lines and lines that begin with ``#`` are no words.
        min_distinct: different ones that a text must have to be dropped.
        min_share: of a text's characters that they must make up.
    """

    name: ClassVar[str] = "blocked_words"
    version: ClassVar[int] = 1

    words: tuple[str, ...] = ()
    lists: tuple[str, ...] = ()
    min_distinct: int = 1
    min_share: float = 0.0

    def __post_init__(self) -> None:
        if not self.words and not self.lists:
            raise ConfigError("no words given; give words or lists")
        if self.min_distinct < 1:
            raise ConfigError(f"min_distinct is {self.min_distinct}; give 1 or more")
        _searcher(self.words, self.lists)

    @property
    def files(self) -> tuple[Path, ...]:
        """What else the result depends on."""
        return tuple(map(Path, self.lists))

    def apply(self, batch: Batch, tally: Tally) -> Batch:
        """See ``Step.apply``."""
        automaton, words = _searcher(self.words, self.lists)
        return sift(batch, [self._judge(text, automaton, words) for text in batch.texts], tally)

    def _judge(self, text: str, automaton: Any, words: tuple[str, ...]) -> Drop | None:
        folded = _folded(text)
        found: set[int] = set()
        characters = 0
        for word, start, end in automaton.find_matches_as_indexes(folded, overlapping=True):
            if not (_joins(folded, start) or _joins(folded, end)):
                found.add(word)
                characters += end - start
        if len(found) < self.min_distinct or characters < self.min_share * len(text):
            return None
        return Drop("blocked words", ", ".join(sorted(words[word] for word in found)[:5]))


def _folded(text: str) -> str:
    return text.lower() if text.isascii() else unicodedata.normalize("NFKC", text).lower()


def _joins(text: str, place: int) -> bool:
    """Whether the characters before and behind a place belong to one word."""
    if not 0 < place < len(text):
        return False
    return bool(kinds()[ord(text[place - 1])] == LETTER == kinds()[ord(text[place])])


@functools.lru_cache(maxsize=8)
def _searcher(words: tuple[str, ...], lists: tuple[str, ...]) -> tuple[Any, tuple[str, ...]]:
    all_words = {
        _folded(word).strip() for word in (*words, *(word for path in lists for word in read_list(Path(path))))
    }
    all_words.discard("")
    if not all_words:
        raise ConfigError("the lists have no words in them")
    ordered = tuple(sorted(all_words))
    return needed("ahocorasick_rs", "step blocked_words").AhoCorasick(ordered), ordered
