"""What is measured by arrays over a batch is what a loop over each text would find."""

import re
import unicodedata
from collections import Counter

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from mindformers_megatron.corpus.measures import lines, repeats, signs, texts
from mindformers_megatron.corpus.measures.texts import MeasuredTexts
from tests.corpus.documents import unicode_texts

few_words = st.lists(
    st.sampled_from(["a", "bb", "the", "Of", "。", "汉", "字", "\n", "x1", "-", "..."]), max_size=60
).map(" ".join)
few_lines = st.lists(
    st.sampled_from(["one", "two.", "• three", "", "  ", "four…", " five...", "六。", "one "]), max_size=20
).map("\n".join)
batches = st.lists(few_words | few_lines | unicode_texts, min_size=1, max_size=6)


def words_of(text: str) -> list[str]:
    measured = MeasuredTexts([text])
    found = measured.words
    return [text[start:end] for start, end in zip(found.starts.tolist(), found.ends.tolist(), strict=True)]


def ratio(part: float, whole: float) -> float:
    return part / whole if whole else 0.0


def lines_of(text: str) -> list[str]:
    return [stripped for line in text.split("\n") if (stripped := line.strip())]


def paragraphs_of(text: str) -> list[str]:
    return [stripped for part in re.split(r"\n\s*\n", text) if (stripped := part.strip())]


def repeated(units: list[str]) -> list[float]:
    again = [unit for place, unit in enumerate(units) if unit.lower() in [one.lower() for one in units[:place]]]
    return [ratio(len(again), len(units)), ratio(sum(map(len, again)), sum(map(len, units)))]


def top_share(words: list[str], n: int) -> float:
    grams = [tuple(word.lower() for word in words[first : first + n]) for first in range(len(words) - n + 1)]
    most = max((count * len("".join(gram)) for gram, count in Counter(grams).items() if count > 1), default=0)
    return ratio(most, sum(map(len, words)))


def repeated_share(words: list[str], n: int) -> float:
    covered, seen = set(), set()
    for first in range(len(words) - n + 1):
        gram = tuple(word.lower() for word in words[first : first + n])
        if gram in seen:
            covered.update(range(first, first + n))
        seen.add(gram)
    return ratio(sum(len(words[place]) for place in covered), sum(map(len, words)))


@settings(max_examples=200)
@given(batches)
def test_ngrams_that_repeat_are_those_of_a_loop(batch: list[str]) -> None:
    measured = MeasuredTexts(batch)
    sizes = (2, 3, 5, 7)
    top = measured.of(repeats.top_shares(sizes, 7))
    again = measured.of(repeats.repeated_shares(sizes, 7))
    for number, text in enumerate(batch):
        if text.isascii() or all(character in "汉字。… " or character.isascii() for character in text):
            words = words_of(text)
            assert np.allclose(top[number], [top_share(words, n) for n in sizes])
            assert np.allclose(again[number], [repeated_share(words, n) for n in sizes])


@settings(max_examples=200)
@given(st.lists(few_lines | few_words, min_size=1, max_size=6))
def test_lines_and_paragraphs_are_those_of_a_loop(batch: list[str]) -> None:
    measured = MeasuredTexts(batch)
    for number, text in enumerate(batch):
        found = lines_of(text)
        assert measured.of(lines.line_counts)[number] == len(found)
        assert np.allclose(measured.of(lines.repeated_lines)[number], repeated(found))
        assert np.allclose(measured.of(lines.repeated_paragraphs)[number], repeated(paragraphs_of(text)))
        bullets = sum(line[0] in "•-" for line in found)
        assert np.isclose(measured.of(lines.bullet_shares)[number], ratio(bullets, len(found)))
        ellipses = sum(line.endswith(("…", "...")) for line in found)
        assert np.isclose(measured.of(lines.ellipsis_shares)[number], ratio(ellipses, len(found)))
        endings = sum(line.endswith((".", "。", "…")) for line in found)
        assert np.isclose(measured.of(lines.ending_shares)[number], ratio(endings, len(found)))
        short = sum(len(line) <= 4 for line in found)
        assert np.isclose(measured.of(lines.short_shares(4))[number], ratio(short, len(found)))


@settings(max_examples=200)
@given(batches)
def test_characters_are_counted_as_in_a_loop(batch: list[str]) -> None:
    measured = MeasuredTexts(batch)
    for number, text in enumerate(batch):
        assert measured.of(texts.lengths)[number] == len(text)
        assert measured.of(signs.visible)[number] == sum(not character.isspace() for character in text)
        parts = text.split()
        alphabetic = sum(any(character.isalpha() for character in part) for part in parts)
        if text.isascii():
            assert np.isclose(measured.of(signs.alphabetic_shares)[number], ratio(alphabetic, len(parts)))
            assert measured.of(signs.hashes_and_ellipses)[number] == text.count("#") + len(re.findall(r"\.{3,}", text))
        wanted = {unicodedata.normalize("NFKC", word).lower() for word in words_of(text)} & {"the", "of", "汉"}
        assert measured.of(texts.distinct_among(("the", "of", "汉")))[number] == len(wanted)


def test_sentences_end_at_points_with_a_blank_behind_and_at_chinese_ones_anywhere() -> None:
    batch = [
        "One. Two! Three?",
        "v1.2.3 is e.g. fine",
        "第一句。第二句！第三句？",
        "Wait... what?!",
        "",
        "no end",
        'He said "go." Then.',
    ]
    assert MeasuredTexts(batch).of(signs.sentences).tolist() == [3, 1, 3, 2, 0, 0, 2]


def test_scripts_without_spaces_are_told() -> None:
    batch = [
        "中文 and more words in English",
        "中文，还有 English",
        "日本語です",
        "한국어 문장",
        "English 中",
        "",
        "12345",
    ]
    assert MeasuredTexts(batch).of(signs.are_cjk).tolist() == [False, True, True, False, False, False, False]


@given(st.lists(st.integers(0, 20), max_size=200))
def test_first_places_are_those_of_a_loop(values: list[int]) -> None:
    keys = np.array(values, np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    assert repeats.first_places(keys).tolist() == [values.index(value) for value in values]


def test_a_text_of_one_word_over_and_over_takes_no_time_to_speak_of() -> None:
    measured = MeasuredTexts(["spam " * 200_000])
    assert measured.of(repeats.repeated_shares((2, 10), 10))[0].min() > 0.99
