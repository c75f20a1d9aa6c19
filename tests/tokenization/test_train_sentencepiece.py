"""SentencePiece models are those of spm_train, and their tokenizer.json gives the same ids."""

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from stdlib_texts import real_texts
from tokenizers import Tokenizer

from mindformers_megatron.errors import ConfigError, DataError
from mindformers_megatron.tokenization.evaluation.vocab_sizes import shortened
from mindformers_megatron.tokenization.training.sentencepiece_model import parse_model
from mindformers_megatron.tokenization.training.sentencepiece_trainer import (
    SentencePieceOptions,
    sentences,
    special_pieces,
    train_sentencepiece,
)
from mindformers_megatron.tokenization.training.special_tokens import SpecialTokens
from mindformers_megatron.tokenization.training.trained import TrainedTokenizer

sentencepiece = pytest.importorskip("sentencepiece")

LOSSLESS = {"normalization_rule_name": "identity", "remove_extra_whitespaces": False, "byte_fallback": True}
SYMBOLS = special_pieces({}, {"pad": 0, "unk": 1, "bos": 2, "eos": 3}, ("<sep>", "<cls>"))


def train(texts: Any = None, **options: Any) -> TrainedTokenizer:
    options = {"vocab_size": 1200, "special": special_pieces({}, {}), "model_type": "bpe", **options}
    return train_sentencepiece(real_texts() if texts is None else texts, SentencePieceOptions(**options))


def processor_of(trained: TrainedTokenizer) -> Any:
    return sentencepiece.SentencePieceProcessor(model_proto=trained.files[".model"])


@pytest.mark.parametrize("model_type", ["bpe", "unigram"])
def test_the_model_is_that_of_spm_train(tmp_path: Path, model_type: Any) -> None:
    lines = [line for text in real_texts() for line in text.split("\n") if line.strip()]
    (tmp_path / "corpus.txt").write_text("\n".join(lines), encoding="utf-8")
    sentencepiece.SentencePieceTrainer.train(
        input=str(tmp_path / "corpus.txt"), model_prefix=str(tmp_path / "theirs"), vocab_size=1200,
        model_type=model_type, character_coverage=0.9995, pad_id=0, unk_id=1, bos_id=2, eos_id=3,
        user_defined_symbols="<sep>,<cls>", minloglevel=2,
    )  # fmt: skip
    ours = train(special=SYMBOLS, model_type=model_type, trainer={"character_coverage": 0.9995})
    theirs = (tmp_path / "theirs.model").read_bytes()
    assert parse_model(ours.files[".model"]) == parse_model(theirs)
    assert ours.files[".vocab"] == (tmp_path / "theirs.vocab").read_bytes()
    assert ours.files == train(special=SYMBOLS, model_type=model_type, trainer={"character_coverage": 0.9995}).files


def test_what_is_read_of_a_model_is_what_the_library_says_of_it() -> None:
    trained = train(special=SYMBOLS, trainer={**LOSSLESS, "add_dummy_prefix": False})
    model, processor = parse_model(trained.files[".model"]), processor_of(trained)
    assert [piece.text for piece in model.pieces] == [processor.id_to_piece(i) for i in range(1200)]
    assert [piece.score for piece in model.pieces] == [processor.get_score(i) for i in range(1200)]
    assert (model.byte_fallback, model.add_dummy_prefix, model.remove_extra_whitespaces) == (True, False, False)
    assert model.charsmap == b""
    with pytest.raises(DataError, match="no SentencePiece model"):
        parse_model(trained.files[".model"][:-3])
    with pytest.raises(DataError, match="no SentencePiece model"):
        parse_model(b"\xff" * 20)


VARIANTS: dict[str, dict[str, Any]] = {
    "as spm_train does it": {},
    "with all ids given, and symbols": {"special": SYMBOLS},
    "lossless": {"trainer": LOSSLESS},
    "lossless, without prefix, with runs of spaces": {
        "special": SYMBOLS,
        "trainer": {**LOSSLESS, "add_dummy_prefix": False, "allow_whitespace_only_pieces": True, "split_digits": True},
    },
    "pieces over spaces": {"trainer": {"split_by_whitespace": False, "normalization_rule_name": "nfkc"}},
    "folded case": {"trainer": {"normalization_rule_name": "nmt_nfkc_cf"}, "special": SYMBOLS},
}
_BITS = ["a", " ", "  ", "▁", "\n", "\t", "<sep>", "<cls>", "é", "e\u0301", "Ａ", "中文", "词表", "😀", "\u3000", "ﬁ",
         " the", "12", "<0x41>", "\u200b", "\ufeff", "한", "\r\n", "=====", "aaaaa", "\0", "ǆ"]  # fmt: skip


def adversarial() -> Iterator[str]:
    draw = random.Random(0)
    for _ in range(1500):
        yield "".join(draw.choices(_BITS, k=draw.randint(0, 12)))


@pytest.mark.parametrize("variant", VARIANTS)
def test_tokenizer_json_gives_the_ids_and_texts_of_the_model(variant: str) -> None:
    trained = train(**VARIANTS[variant])
    processor, tokenizer = processor_of(trained), trained.tokenizer
    symbols = VARIANTS[variant].get("special", special_pieces({}, {})).user_defined
    for text in (*real_texts(), *adversarial()):
        # A symbol and nothing else gets no dummy prefix; the docstring of to_tokenizer says so.
        if processor.normalize(text).strip("▁") not in symbols:
            ids = processor.encode(text)
            assert tokenizer.encode(text, add_special_tokens=False).ids == ids, repr(text)
            if processor.unk_id() not in ids:
                assert tokenizer.decode(ids, skip_special_tokens=False) == processor.decode(ids), repr(text)
    assert trained.findings["compared_with_model"]["other_ids"] == 0
    assert trained.warnings == ()


@pytest.mark.parametrize("model_type", ["bpe", "unigram"])
def test_a_control_symbol_in_a_text_is_found_there_and_the_text_comes_back(model_type: Any) -> None:
    tokenizer = train(special=SYMBOLS, model_type=model_type, trainer=LOSSLESS).tokenizer
    texts = {"say <s> and </s>now": 2, "<s>at the beginning": 1, "</s>": 1, "<s></s>": 2, "one<sep></s><cls>two": 1}
    for text, count in texts.items():
        encoding = tokenizer.encode(text, add_special_tokens=False)
        assert sum(token in ("<s>", "</s>") for token in encoding.tokens) == count
        assert tokenizer.decode(encoding.ids, skip_special_tokens=False) == text


def test_a_unigram_model_differs_in_ties_alone_and_that_is_said() -> None:
    ruler = "=" * 60
    trained = train(texts=[*real_texts(), *[f"{ruler[: n % 50]} {n}" for n in range(300)]], model_type="unigram",
                    trainer=LOSSLESS)  # fmt: skip
    processor, tokenizer = processor_of(trained), trained.tokenizer
    scores = [processor.get_score(id_) for id_ in range(processor.get_piece_size())]
    different = 0
    for text in (*real_texts(), *adversarial()):
        ours, theirs = tokenizer.encode(text, add_special_tokens=False).ids, processor.encode(text)
        different += ours != theirs
        assert sum(scores[i] for i in ours) == pytest.approx(sum(scores[i] for i in theirs), abs=1e-3), repr(text)
    compared = trained.findings["compared_with_model"]
    assert different < 40
    assert bool(trained.warnings) == bool(compared["other_ids"])


def test_a_bpe_model_cut_short_gives_the_pieces_of_a_smaller_one() -> None:
    options: dict[str, Any] = {"trainer": LOSSLESS}
    large, small = train(**options), train(vocab_size=700, **options)
    cut = Tokenizer.from_str(json.dumps(shortened(json.loads(large.tokenizer.to_str()), 700, "large")))
    for text in real_texts():
        assert cut.encode(text).tokens == small.tokenizer.encode(text).tokens


def test_an_end_of_document_of_its_own_is_a_control_symbol() -> None:
    trained = train(special=special_pieces({"eod": "<|endoftext|>"}, {}), control_symbols=("<call>",))
    processor = processor_of(trained)
    assert processor.is_control(processor.piece_to_id("<|endoftext|>"))
    assert processor.is_control(processor.piece_to_id("<call>"))
    assert trained.roles["eod"] == "<|endoftext|>"


@given(line=st.text(alphabet=st.sampled_from("ab 中é😀"), min_size=1, max_size=60), limit=st.integers(8, 30))
@settings(max_examples=200)
def test_long_lines_are_cut_and_nothing_of_them_is_lost(line: str, limit: int) -> None:
    pieces = list(sentences([line], limit))
    assert "".join(pieces) == ("" if line.isspace() else line)
    assert all(len(piece.encode()) <= limit for piece in pieces)


def test_long_lines_are_cut_at_spaces() -> None:
    assert list(sentences(["one two three four\n\n   \nfive"], 10)) == ["one two", " three", " four", "five"]


def test_a_line_longer_than_the_library_takes_is_learned_from() -> None:
    line = " ".join(f"word{number % 90}" for number in range(3000))
    assert processor_of(train([line], vocab_size=60)).get_piece_size() == 60


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"vocab_size": 100_000}, r"SentencePiece refuses: Vocabulary size too high \(100000\)"),
        ({"vocab_size": 20}, "SentencePiece refuses: Vocabulary size is smaller than required_chars"),
        ({"trainer": {"character_coverage": 0.5}}, "character_coverage is 0.5; SentencePiece takes 0.98 to 1.0"),
        ({"trainer": {"normalization_rule_name": "rot13"}}, "SentencePiece refuses: .*rot13"),
        ({"special": SpecialTokens({})}, "needs an unknown token"),
        ({"special": special_pieces({}, {"pad": 5000})}, "pad id 5000 is not among the 1200 ids"),
        ({"special": special_pieces({}, {"pad": 0})}, "id 0 is asked for both '<pad>' and '<unk>'"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message) as refusal:
        train(**options)
    assert "\n" not in str(refusal.value)


def test_errors_of_the_input_are_its_own() -> None:
    def broken() -> Iterator[str]:
        yield "a text"
        raise DataError("input.jsonl, line 2: it is not valid JSON")

    with pytest.raises(DataError, match=r"^input\.jsonl, line 2: it is not valid JSON$"):
        train(broken())
    with pytest.raises(DataError, match="no text to train on"):
        train([])
