"""Texts for people: those of single tokens, and where two texts differ."""

from hypothesis import given, settings
from hypothesis import strategies as st
from pairs import GOLDEN
from tokenizers import Tokenizer

from mindformers_megatron.report.difference import differing_runs
from mindformers_megatron.report.token_texts import token_texts
from mindformers_megatron.tokenization.decoding import open_decoder

FOLDER = GOLDEN / "preprocess" / "tokenizer"
TOKENIZER, DECODE = Tokenizer.from_file(str(FOLDER / "tokenizer.json")), open_decoder(FOLDER)
WORDS = st.text(st.sampled_from("ab 日本,.\n"), max_size=60)


@given(st.text(max_size=40) | st.text(st.sampled_from("a é日𝔘👩‍👩‍👧 "), max_size=40))
@settings(max_examples=200)
def test_the_texts_of_tokens_are_the_text_of_the_sequence(text: str) -> None:
    ids = TOKENIZER.encode(text).ids
    texts = token_texts(DECODE, ids)
    assert len(texts) == len(ids)
    assert "".join(texts) == DECODE(ids)


@given(st.lists(st.integers(0, TOKENIZER.get_vocab_size() - 1), max_size=30))
@settings(max_examples=200)
def test_any_ids_have_texts(ids: list[int]) -> None:
    assert len(token_texts(DECODE, ids)) == len(ids)


@given(WORDS, WORDS)
def test_runs_are_the_texts_and_what_is_shared_is_equal(left: str, right: str) -> None:
    ours, theirs = differing_runs(left, right)
    assert "".join(text for text, _ in ours) == left
    assert "".join(text for text, _ in theirs) == right


def test_a_changed_word_is_marked_on_both_sides() -> None:
    ours, theirs = differing_runs("one two three", "one too three")
    assert [text for text, differs in ours if differs] == ["two"]
    assert [text for text, differs in theirs if differs] == ["too"]


def test_a_changed_character_of_a_script_without_spaces_is_marked_alone() -> None:
    ours, theirs = differing_runs("训练数据的质量", "训练语料的质量")
    assert [text for text, differs in ours if differs] == ["数据"]
    assert [text for text, differs in theirs if differs] == ["语料"]


def test_what_follows_where_an_excerpt_ends_is_not_marked() -> None:
    ours, theirs = differing_runs("one two", "one two three")
    assert not any(differs for _, differs in [*ours, *theirs])
