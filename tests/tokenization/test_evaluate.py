"""Measures are what they say, by hand on small texts and against the libraries on real ones."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from stdlib_texts import CHINESE, real_texts
from tokenizers import Tokenizer

from mindformers_megatron.errors import ConfigError
from mindformers_megatron.tokenization.evaluation.codecs import Codec, open_codec
from mindformers_megatron.tokenization.evaluation.measure import LabelledText, Measures, evaluate
from mindformers_megatron.tokenization.evaluation.vocab_sizes import shortened
from mindformers_megatron.tokenization.tokenizer_files import TokenizerSpec

GOLDEN = Path(__file__).parent.parent / "golden" / "preprocess" / "tokenizer"


def labelled(text: str, source: str = "a", language: str = "en") -> LabelledText:
    return LabelledText(text, source, language, len(text.split()), len(text.encode()))


def letters(unknown: str = "?") -> Codec:
    """A codec with a token for each character; ``unknown`` is what it has no id for, and it comes back as ``.``."""

    def encode(texts: Sequence[str]) -> Any:
        ids = [0 if character == unknown else ord(character) for text in texts for character in text]
        return np.array(ids, np.int32), np.array([len(text) for text in texts], np.int64)

    def decode(ids: Sequence[Sequence[int]]) -> list[str]:
        return ["".join("." if id_ == 0 else chr(id_) for id_ in of_text) for of_text in ids]

    return Codec("letters", "letters", 100, 0, encode, decode, None)


def test_rates_are_those_of_the_counts() -> None:
    (evaluation,) = evaluate([letters()], [[labelled("ab é?")], [labelled("c d", "b", "de"), labelled("x")]])
    total = evaluation.total()
    assert (total.texts, total.bytes, total.characters, total.words, total.tokens) == (3, 10, 9, 5, 9)
    assert (total.unknown, total.failures) == (1, 1)
    assert (total.bytes_per_token, total.tokens_per_word, total.tokens_per_character) == (10 / 9, 9 / 5, 1)
    assert total.unknown_rate == 1 / 9
    assert evaluation.total(source="b").texts == evaluation.total(language="de").texts == 1
    assert evaluation.total(source="a", language="de") == Measures()
    assert (evaluation.sources, evaluation.languages) == (["a", "b"], ["en", "de"])
    assert evaluation.embedding_parameters(64) == 6400
    assert Measures().to_json()["bytes_per_token"] == 0


def test_the_first_text_that_does_not_come_back_is_shown_where_it_differs() -> None:
    text = "a long beginning, then? and a long end of it all"
    (evaluation,) = evaluate([letters()], [[labelled("fine"), labelled(text), labelled("b?")]])
    example = evaluation.total().example
    assert example is not None
    assert (example.source, example.position) == ("a", text.index("?"))
    assert (example.text, example.decoded) == ("ng, then? and a long end", "ng, then. and a long end")


def test_what_comes_back_shorter_differs_at_its_end() -> None:
    whole = letters()
    short = replace(whole, unknown_id=None, decode=lambda ids: [text[:2] for text in whole.decode(ids)])
    (evaluation,) = evaluate([short], [[labelled("abc")]])
    example = evaluation.total().example
    assert example is not None
    assert (example.position, example.text, example.decoded) == (2, "abc", "ab")
    assert evaluation.total().unknown == 0


def test_real_texts_are_measured_as_the_library_encodes_them() -> None:
    codec = open_codec(TokenizerSpec(path=GOLDEN))
    (evaluation,) = evaluate([codec], [[labelled(text) for text in real_texts()]])
    tokenizer = Tokenizer.from_file(str(GOLDEN / "tokenizer.json"))
    total = evaluation.total()
    assert total.tokens == sum(len(tokenizer.encode(text).ids) for text in real_texts())
    assert (total.failures, total.unknown, codec.vocab_size) == (0, 0, 4000)


def test_sentencepiece_and_its_unknown_text(sentencepiece_model: Path) -> None:
    codec = open_codec(TokenizerSpec(path=sentencepiece_model))
    (evaluation,) = evaluate([codec], [[labelled(text, "zh", "zh") for text in CHINESE] + [labelled("two  spaces")]])
    assert evaluation.total(source="zh").unknown == 0  # this model falls back to bytes
    (cut,) = evaluate([codec.with_vocab_size(500)], [[labelled(text, "zh", "zh") for text in CHINESE]])
    assert cut.total().tokens >= evaluation.total(source="zh").tokens
    failed = evaluation.total(source="a")
    assert (failed.failures, failed.example.decoded if failed.example else "") == (1, "two spaces")


@pytest.mark.parametrize("size", [300, 1000, 3999])
def test_a_smaller_vocabulary_needs_more_tokens_and_loses_nothing(size: int) -> None:
    codec = open_codec(TokenizerSpec(path=GOLDEN))
    small = codec.with_vocab_size(size)
    assert (small.name, small.family, small.vocab_size) == (f"{codec.name} @ {size}", codec.name, size)
    one, two = (evaluation.total() for evaluation in evaluate([small, codec], [[labelled(t) for t in real_texts()]]))
    assert one.tokens >= two.tokens
    assert one.failures == 0


def test_what_cannot_be_cut_is_refused() -> None:
    codec = open_codec(TokenizerSpec(path=GOLDEN))
    for size in (256, 4000):
        with pytest.raises(ConfigError, match="it has 4000, of which 257 come before any merge"):
            codec.with_vocab_size(size)
    with pytest.raises(ConfigError, match="only a BPE of Hugging Face or SentencePiece"):
        letters().with_vocab_size(50)
    with pytest.raises(ConfigError, match="this is WordPiece"):
        shortened({"model": {"type": "WordPiece"}}, 10, "bert")


def test_merges_as_text_are_understood_as_well() -> None:
    state = json.loads((GOLDEN / "tokenizer.json").read_text())
    old = {**state, "model": {**state["model"], "merges": [" ".join(m) for m in map(tuple, state["model"]["merges"])]}}
    if isinstance(state["model"]["merges"][0], list):
        assert shortened(old, 500, "old") == shortened(state, 500, "new")
