"""The step ``c4``: the rules of the Colossal Clean Crawled Corpus, for lines and for documents.

Raffel et al., "Exploring the Limits of Transfer Learning with a Unified Text-to-Text Transformer" (2020), section 2.2,
with the numbers of the code that made the corpus (three words a line, five sentences). Ends of sentences are those of
Chinese and Japanese too, where every character is a word.
"""

import re
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from mindformers_megatron.corpus.batch import Batch
from mindformers_megatron.corpus.filters.bounds import Bound, judge
from mindformers_megatron.corpus.measures import lines, signs, texts
from mindformers_megatron.corpus.measures.texts import MeasuredTexts
from mindformers_megatron.corpus.steps import rewrite, sift
from mindformers_megatron.corpus.tally import Drop, Tally

_CITATION = re.compile(r"\[(?:\d+|edit|citation needed)\]")
_POLICIES = ("terms of use", "privacy policy", "cookie policy", "uses cookies", "use of cookies", "use cookies")
_POLICIES_CHINESE = ("隐私政策", "使用条款", "版权所有")
_ENDS = np.array([ord(end) for end in ".!?\"'”’。！？…」』）"], np.uint32)


@dataclass(frozen=True, slots=True, kw_only=True)
class C4:
    """Keeps lines that are sentences, and documents of some of them.

    Attributes:
        ending: whether lines must end as sentences do.
        min_words_per_line: shorter lines go.
        max_word_length: lines with a longer word go.
        javascript: whether lines that mention JavaScript go.
        policies: whether lines about privacy, cookies and terms of use go.
        citations: whether ``[1]`` and ``[edit]`` are taken out.
        curly_brackets: whether documents with a ``{``, which are code, go.
        lorem_ipsum: whether documents with that go.
        min_sentences: of what is left.
    """

    name: ClassVar[str] = "c4"
    version: ClassVar[int] = 1

    ending: bool = True
    min_words_per_line: int = 3
    max_word_length: int = 1000
    javascript: bool = True
    policies: bool = True
    citations: bool = True
    curly_brackets: bool = True
    lorem_ipsum: bool = True
    min_sentences: int = 5

    def apply(self, batch: Batch, tally: Tally) -> Batch:
        """See ``Step.apply``."""
        batch = sift(batch, [self._whole(text) for text in batch.texts], tally)
        if not batch:
            return batch
        batch = rewrite(batch, self._with_good_lines(batch), tally)
        if not batch or not self.min_sentences:
            return batch
        bound = Bound("too few sentences", batch.of(signs.sentences), least=self.min_sentences)
        return sift(batch, judge([bound], len(batch)), tally)

    def _whole(self, text: str) -> Drop | None:
        if self.curly_brackets and "{" in text:
            return Drop("curly bracket")
        return Drop("lorem ipsum") if self.lorem_ipsum and "lorem ipsum" in text.lower() else None

    def _with_good_lines(self, batch: Batch) -> list[str]:
        rewritten = []
        for text in batch.texts:
            if self.citations and "[" in text:
                text = _CITATION.sub("", text)
            rewritten.append(text)
        measured = MeasuredTexts(rewritten)
        found = measured.of(lines.lines)
        good = self._good(measured, found)
        kept = []
        for number, text in enumerate(rewritten):
            first, last = found.offsets[number], found.offsets[number + 1]
            if good[first:last].all() and not (self.javascript or self.policies):
                kept.append(text)
                continue
            origin = measured.bounds[number]
            pieces = [
                text[start - origin : end - origin]
                for start, end, is_good in zip(
                    found.starts[first:last].tolist(), found.ends[first:last].tolist(), good[first:last], strict=True
                )
                if is_good
            ]
            kept.append("\n".join(piece for piece in pieces if not self._is_boilerplate(piece)))
        return kept

    def _good(self, measured: MeasuredTexts, found: lines.Lines) -> "np.ndarray[tuple[int], np.dtype[np.bool_]]":
        words = measured.words
        count = np.searchsorted(words.starts, found.ends) - np.searchsorted(words.starts, found.starts)
        good = count >= self.min_words_per_line
        if self.ending:
            good &= np.isin(words.codes[found.ends - 1], _ENDS)
        long = words.starts[measured.of(texts.word_lengths) > self.max_word_length]
        good &= np.searchsorted(long, found.ends) == np.searchsorted(long, found.starts)
        return good

    def _is_boilerplate(self, line: str) -> bool:
        lower = line.lower()
        if self.javascript and "javascript" in lower:
            return True
        if not self.policies:
            return False
        return any(phrase in lower for phrase in _POLICIES) or any(phrase in line for phrase in _POLICIES_CHINESE)
