"""Byte-level BPE: the same from the same texts, with the ids asked for, and no text that it cannot hold."""

import json
import os
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from stdlib_texts import real_texts
from tokenizers import Tokenizer

from mindformers_megatron.errors import ConfigError, DataError
from mindformers_megatron.tokenization.evaluation.vocab_sizes import shortened
from mindformers_megatron.tokenization.training.byte_bpe import ByteBpeOptions, train_byte_bpe
from mindformers_megatron.tokenization.training.special_tokens import SpecialTokens
from mindformers_megatron.tokenization.training.trained import TrainedTokenizer
from mindformers_megatron.tokenization.training.word_patterns import DIGITS, STYLES, pre_tokenizer

EOD = SpecialTokens({"eod": "<|endoftext|>"})


def train(texts: Any = None, **options: Any) -> TrainedTokenizer:
    options = {"vocab_size": 1000, "special": EOD, **options}
    return train_byte_bpe(real_texts() if texts is None else texts, ByteBpeOptions(**options))


@pytest.fixture(scope="module")
def trained() -> TrainedTokenizer:
    return train()


def test_the_result_does_not_depend_on_the_number_of_threads() -> None:
    script = (
        "import hashlib; from test_train_byte_bpe import train; "
        "print(hashlib.sha256(train().tokenizer.to_str().encode()).hexdigest())"
    )
    paths = os.pathsep.join(path for path in sys.path if path)
    digests = {
        subprocess.run(
            [sys.executable, "-c", script],
            env={**os.environ, "PYTHONPATH": paths, "RAYON_NUM_THREADS": threads, "TOKENIZERS_PARALLELISM": "true"},
            capture_output=True, text=True, check=True,
        ).stdout
        for threads in ("1", "3")
    }  # fmt: skip
    assert len(digests) == 1


@given(text=st.text())
@settings(max_examples=200)
def test_every_text_comes_back(trained: TrainedTokenizer, text: str) -> None:
    ids = trained.tokenizer.encode(text, add_special_tokens=False).ids
    assert trained.tokenizer.decode(ids, skip_special_tokens=False) == text


def test_special_tokens_have_the_ids_asked_for_and_the_lowest_others() -> None:
    special = SpecialTokens(
        {"pad": "<pad>", "bos": "<s>", "eos": "<|im_end|>", "eod": "<|endoftext|>"},
        {"eod": 999, "pad": 0},
        ("<sep>", "<思考>"),
    )
    tokenizer = train(special=special).tokenizer
    named = ("<pad>", "<s>", "<|im_end|>", "<sep>", "<思考>", "<|endoftext|>")
    assert [tokenizer.token_to_id(token) for token in named] == [0, 1, 2, 3, 4, 999]
    assert tokenizer.get_vocab_size() == 1000
    assert sorted(tokenizer.get_vocab().values()) == list(range(1000))
    ids = tokenizer.encode("a<sep>b<思考><|endoftext|>").ids
    assert (ids[1], ids[3], ids[4]) == (3, 4, 999)
    assert tokenizer.decode(ids) == "a<sep>b<思考>"  # control tokens are no text, symbols are


def test_special_tokens_do_not_change_what_is_learned() -> None:
    def merges(result: TrainedTokenizer) -> Any:
        return json.loads(result.tokenizer.to_str())["model"]["merges"]

    plain = merges(train())
    more = SpecialTokens({"eod": "<|endoftext|>"}, {}, ("<sep>",))
    texts = [text + "<sep>" * 50 + "<|endoftext|>" for text in real_texts()]
    assert merges(train(texts, special=more, vocab_size=1001)) == plain


def test_a_smaller_vocabulary_is_a_larger_one_cut_short(trained: TrainedTokenizer) -> None:
    small = train(vocab_size=600)
    cut = Tokenizer.from_str(json.dumps(shortened(json.loads(trained.tokenizer.to_str()), 600, "large")))
    assert cut.get_vocab_size() == 600
    for text in real_texts():
        assert cut.encode(text).tokens == small.tokenizer.encode(text).tokens


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("digits", DIGITS)
def test_words_are_cut_in_the_style_asked_for(style: str, digits: str) -> None:
    words = [word for word, _ in pre_tokenizer(style, digits).pre_tokenize_str("It'S x=12345\n\n  end")]  # type: ignore[arg-type]
    longest = {"style": {"gpt2": 5, "qwen": 1, "llama3": 3}[style], "1": 1, "3": 3}[digits]
    assert max(len(word) for word in words if word.strip("Ġ").isdecimal()) == longest
    assert ("'S" in words) == (style != "gpt2")
    assert "".join(words) == "It'SĠx=12345ĊĊĠĠend"


def test_normalization_is_asked_for_or_not_done() -> None:
    assert train().tokenizer.normalizer is None
    tokenizer = train(normalization="nfc").tokenizer
    assert tokenizer.encode("e\u0301").ids == tokenizer.encode("é").ids


def test_a_limited_alphabet_keeps_the_most_frequent_bytes_and_has_an_unknown_token() -> None:
    texts = ["aab abab " * 10 + "xyzé"]
    special = SpecialTokens({"unk": "<unk>", "eod": "<|endoftext|>"})
    tokenizer = train(texts, special=special, vocab_size=10, limit_alphabet=3, hard_vocab_limit=False).tokenizer
    assert {"a", "b", "Ġ"} <= set(tokenizer.get_vocab())
    assert not {"x", "y", "z"} & set(tokenizer.get_vocab())
    assert tokenizer.encode("axb").tokens == ["a", "<unk>", "b"]


def test_gpt2s_own_two_files_come_with_its_style_alone() -> None:
    result = train(pre_tokenizer="gpt2")
    assert json.loads(result.files["vocab.json"]) == result.tokenizer.get_vocab()
    assert result.files["merges.txt"].startswith(b"#version")
    assert train().files == {}


def test_a_text_of_megabytes_is_learned_from_in_pieces() -> None:
    long = "".join(f"line {number} of text\n" for number in range(60_000))
    assert train([long], vocab_size=264).vocab_size == 264


def test_longest_token_and_frequency_are_kept() -> None:
    tokens = train(max_token_bytes=4, min_frequency=5).tokenizer.get_vocab()
    assert max(len(token) for token in tokens if token != "<|endoftext|>") == 4


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"vocab_size": 257}, "no room for merges: bytes and special tokens are 257"),
        ({"pre_tokenizer": "bert"}, "'bert' is none of: gpt2, qwen, llama3"),
        ({"digits": "2"}, "digits '2' is none of: style, 1, 3"),
        ({"normalization": "nfd"}, "'nfd' is none of: none, nfc, nfkc"),
        ({"min_frequency": 0}, "min_frequency is 0"),
        ({"max_token_bytes": 1}, "max_token_bytes is 1"),
        ({"limit_alphabet": 300}, "limit_alphabet is 300"),
        ({"limit_alphabet": 50}, "give an unknown token too"),
        ({"vocab_size": 10**6}, "the vocabulary was to have 1000000; ask for fewer"),
        ({"special": SpecialTokens({"eod": "a"})}, "'a' is a byte or a merge as well"),
        ({"special": SpecialTokens({"eod": "x"}, {"eod": 1000})}, "eod id 1000 is not among the 1000 ids"),
        (
            {
                "special": SpecialTokens({"eod": "<e>"}, {"eod": 999_999}),
                "vocab_size": 10**6,
                "hard_vocab_limit": False,
            },
            "id 999999 is asked for, but the vocabulary ends at",
        ),
    ],
)
def test_what_cannot_be_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        train(**options)


@pytest.mark.parametrize("texts", [[], [""], ["<|endoftext|>"]])
def test_no_text_is_refused(texts: list[str]) -> None:
    with pytest.raises(DataError, match="no text to train on"):
        train(texts)
