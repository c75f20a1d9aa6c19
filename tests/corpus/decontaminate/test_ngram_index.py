import numpy as np
import pytest
from corpus.brute_force import texts, words
from hypothesis import given, settings
from hypothesis import strategies as st

from mindformers_megatron.corpus.decontaminate.evaluation import EvaluationItem
from mindformers_megatron.corpus.decontaminate.ngram_index import NgramIndex
from mindformers_megatron.corpus.decontaminate.spans import document_spans, item_spans
from mindformers_megatron.corpus.words import split_words
from mindformers_megatron.errors import ConfigError

# Few different words, so that n-grams meet.
few_words = st.sampled_from(["a", "b", "A,", "c", "天", "地", "天地", "b."])
evaluation_texts = st.lists(few_words, max_size=9).map(" ".join) | texts
evaluation_items = st.lists(st.lists(evaluation_texts, max_size=3), max_size=5)


def items_of(batch: list[list[str]]) -> list[EvaluationItem]:
    return [EvaluationItem("set", f"item {number}", tuple(texts_)) for number, texts_ in enumerate(batch)]


def wanted(texts_: list[str], ngram: int, shortest: int) -> set[tuple[str, ...]]:
    """The n-grams of an item."""
    found = set()
    for text in texts_:
        forms = tuple(form for _, _, form in words(text))
        if shortest <= len(forms) < ngram:
            found.add(forms)
        found |= {forms[place : place + ngram] for place in range(len(forms) - ngram + 1)}
    return found


@given(evaluation_items, st.lists(evaluation_texts, max_size=6), st.data())
@settings(max_examples=150)
def test_every_ngram_is_found_where_it_stands_and_nowhere_else(batch, documents, data) -> None:
    ngram = data.draw(st.integers(1, 4))
    shortest = data.draw(st.integers(1, ngram))
    index = NgramIndex(items_of(batch), ngram=ngram, shortest=shortest)
    hits = index.find(documents, first_document=10)
    rows, items = index.items_of(hits.ngrams)
    found = {
        (int(hits.documents[row]), int(hits.starts[row]), int(hits.ends[row]), int(item))
        for row, item in zip(rows, items, strict=True)
    }
    expected = set()
    for item, texts_ in enumerate(batch):
        grams = wanted(texts_, ngram, shortest)
        for document, text in enumerate(documents):
            places = words(text)
            for first in range(len(places)):
                for last in range(first, min(first + ngram, len(places))):
                    if tuple(form for _, _, form in places[first : last + 1]) in grams:
                        expected.add((document + 10, places[first][0], places[last][1], item))
    assert found == expected
    assert index.item_ngrams.tolist() == [len(wanted(texts_, ngram, shortest)) for texts_ in batch]
    assert index.num_ngrams == len(set().union(*(wanted(texts_, ngram, shortest) for texts_ in batch)))
    assert [*zip(hits.documents, hits.starts, hits.ends, strict=True)] == sorted(
        zip(hits.documents, hits.starts, hits.ends, strict=True)
    )


@given(evaluation_items, st.lists(evaluation_texts, max_size=6))
def test_spans_cover_the_characters_that_hits_cover(batch, documents) -> None:
    index = NgramIndex(items_of(batch), ngram=2, shortest=1)
    hits = index.find(documents)
    rows, items = index.items_of(hits.ngrams)
    by_item = {
        (int(hits.documents[row]), int(item), place)
        for row, item in zip(rows, items, strict=True)
        for place in range(hits.starts[row], hits.ends[row])
    }
    spans = item_spans(hits, index)
    assert by_item == {
        (document, item, place)
        for document, item, start, end in zip(spans.documents, spans.items, spans.starts, spans.ends, strict=True)
        for place in range(start, end)
    }
    spans = document_spans(hits)
    assert {(document, place) for document, _, place in by_item} == {
        (document, place)
        for document, start, end in zip(spans.documents, spans.starts, spans.ends, strict=True)
        for place in range(start, end)
    }
    # Apart from each other: no span touches the next one.
    same = spans.documents[1:] == spans.documents[:-1]
    assert np.all(spans.starts[1:][same] > spans.ends[:-1][same])


QUESTION = "Which of the following planets takes the longest time to go around the sun once?"
CHINESE = "下列行星中，绕太阳公转一周所需时间最长的是哪一颗？"


def test_a_question_is_found_in_other_punctuation_and_case() -> None:
    index = NgramIndex(items_of([[QUESTION], [CHINESE]]))
    english = "WHICH OF THE FOLLOWING PLANETS\ntakes  the longest time to go - around 'the sun' once"
    chinese = "下列 行星 中：绕太阳公转一周，所需时间最长的是哪一颗"
    hits = index.find(["nothing here", f"See: {english}!", f"题目：（{chinese}）"])
    spans = item_spans(hits, index)
    assert spans.documents.tolist() == [1, 2]
    assert spans.items.tolist() == [0, 1]
    assert f"See: {english}!"[spans.starts[0] : spans.ends[0]] == english
    assert f"题目：（{chinese}）"[spans.starts[1] : spans.ends[1]] == chinese


def test_a_long_training_corpus_hits_only_where_it_was_planted() -> None:
    chance = np.random.default_rng(0)
    vocabulary = np.array([f"w{number}" for number in range(5000)])
    documents = [" ".join(vocabulary[chance.integers(0, 5000, 300)]) for _ in range(2000)]
    planted = chance.choice(2000, 100, replace=False)
    evaluation = [" ".join(vocabulary[chance.integers(0, 5000, 40)]) for _ in range(500)]
    for number, document in enumerate(planted):
        first = chance.integers(0, 27)
        part = " ".join(evaluation[number].split()[first : first + 13])
        documents[document] = f"{documents[document][:500]} {part} {documents[document][500:]}"
    hits = NgramIndex(items_of([[text] for text in evaluation])).find(documents)
    assert hits.documents.tolist() == sorted(planted.tolist())


def thue_morse(first: str, second: str, doublings: int) -> str:
    word, other = first, second
    for _ in range(doublings):
        word, other = word + other, other + word
    return word


def test_different_words_with_the_same_hash_are_told_apart() -> None:
    # The sum over a Thue-Morse word and that over its mirror are equal modulo any power of two, if it is long enough.
    one, other = thue_morse("a", "b", 12), thue_morse("b", "a", 12)
    assert len(set(split_words([one, other]).hashes.tolist())) == 1
    alone = NgramIndex(items_of([[one]]), ngram=1, shortest=1)
    assert alone.find([f"x {one} {other}", other]).documents.tolist() == [0]
    both = NgramIndex(items_of([[one], [other], [other]]), ngram=1, shortest=1)
    assert both.num_ngrams == 2
    spans = item_spans(both.find([other, one]), both)
    assert spans.items.tolist() == [1, 2, 0]


def test_a_phrase_that_many_items_share_counts_for_the_first_of_them() -> None:
    index = NgramIndex(items_of([["the same instructions"]] * 100), ngram=3, shortest=3)
    assert item_spans(index.find(["the same instructions"]), index).items.tolist() == [*range(64)]


@pytest.mark.parametrize(("ngram", "shortest"), [(0, 0), (5, 0), (5, 6)])
def test_impossible_lengths_are_refused(ngram: int, shortest: int) -> None:
    with pytest.raises(ConfigError, match="words"):
        NgramIndex([], ngram=ngram, shortest=shortest)
