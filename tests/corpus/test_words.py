import numpy as np
from corpus.brute_force import ALPHABET, ngrams, texts, words
from hypothesis import given
from hypothesis import strategies as st

from mindformers_megatron.corpus.ngrams import find_ngrams, whole_hashes
from mindformers_megatron.corpus.words import Words, batches, split_words

several = st.lists(texts, max_size=6)


def places(found: Words, text: int) -> list[tuple[int, int]]:
    chosen = slice(found.offsets[text], found.offsets[text + 1])
    begin = found.text_starts[text]
    return [*zip(found.starts[chosen] - begin, found.ends[chosen] - begin, strict=True)]


def hashes(found: Words, text: int) -> list[int]:
    return found.hashes[found.offsets[text] : found.offsets[text + 1]].tolist()


@given(several)
def test_words_are_runs_of_letters_and_single_signs(batch: list[str]) -> None:
    found = split_words(batch)
    for number, text in enumerate(batch):
        assert places(found, number) == [(start, end) for start, end, _ in words(text)]


@given(several)
def test_hashes_are_equal_exactly_where_folded_words_are(batch: list[str]) -> None:
    found = split_words(batch)
    forms = [form for text in batch for _, _, form in words(text)]
    assert (
        len(set(zip(forms, found.hashes.tolist(), strict=True))) == len(set(forms)) == len(set(found.hashes.tolist()))
    )


@given(several)
def test_the_words_of_a_text_do_not_depend_on_its_neighbours(batch: list[str]) -> None:
    together = split_words(batch)
    for number, text in enumerate(batch):
        alone = split_words([text])
        assert hashes(together, number) == hashes(alone, 0)
        assert places(together, number) == places(alone, 0)


@given(several, st.integers(1, 6))
def test_ngrams_stay_within_their_text_and_are_told_apart(batch: list[str], n: int) -> None:
    found = find_ngrams(split_words(batch), n)
    expected = [gram for text in batch for gram in ngrams(text, n)]
    assert np.diff(found.offsets).tolist() == [len(ngrams(text, n)) for text in batch]
    pairs = set(zip(expected, found.hashes.tolist(), strict=True))
    assert len(pairs) == len(set(expected)) == len(set(found.hashes.tolist()))


@given(st.lists(texts.filter(lambda text: bool(words(text))), min_size=1, max_size=6))
def test_a_whole_text_hashes_as_one_ngram_of_all_its_words(batch: list[str]) -> None:
    found = split_words(batch)
    for number, hashed in enumerate(whole_hashes(found, np.arange(len(batch)))):
        count = len(words(batch[number]))
        assert hashed == find_ngrams(split_words([batch[number]]), count).hashes[0]


def test_case_width_and_punctuation_do_not_count() -> None:
    left, right = split_words(["Ｈello, WORLD! 模型（Ａ）"]), split_words(["hello world 模型a"])
    assert hashes(left, 0) == hashes(right, 0)


def test_a_word_hashes_alike_wherever_it_stands() -> None:
    far = "x " * 700_000 + "训练 megatron"
    assert hashes(split_words([far]), 0)[-3:] == hashes(split_words(["训练 megatron"]), 0)
    long = "megatron" * 200_000
    alone = hashes(split_words([long]), 0)
    assert hashes(split_words([f"a {long}训{long} b", long]), 0)[1::2] == alone * 2


def test_lone_surrogates_separate_words() -> None:
    assert places(split_words(["ab\ud800cd"]), 0) == [(0, 2), (3, 5)]


def test_nothing_at_all_has_no_words() -> None:
    assert split_words([]).offsets.tolist() == [0]
    assert split_words(["", ""]).offsets.tolist() == [0, 0, 0]


@given(st.lists(st.text(alphabet=ALPHABET, max_size=9), max_size=20), st.integers(1, 30))
def test_batches_hold_every_text_once_in_order(many: list[str], characters: int) -> None:
    cut = [many[batch] for batch in batches(many, characters)]
    assert [text for batch in cut for text in batch] == many
    assert all(len(batch) == 1 or sum(map(len, batch)) <= characters for batch in cut)


def test_hashes_stay_what_they_are() -> None:
    """An index on disk is searched by later versions: these values may never change."""
    found = split_words(["The data, 数据 again"])
    assert found.hashes.tolist() == [
        16605363854327600655,
        16754865157456345175,
        15018664280643328172,
        6636400195244775900,
        3506218953832866750,
    ]
    assert find_ngrams(found, 5).hashes.tolist() == [15664763118911147541]
