"""Engines against the library that defines the ids."""

import unicodedata
from collections.abc import Sequence
from pathlib import Path
from threading import Thread

import numpy as np
import pytest
from families import FAMILIES, write_folder
from hypothesis import given
from hypothesis import strategies as st
from runs import assert_golden, run

from mindformers_megatron.errors import ConfigError
from mindformers_megatron.tokenization.engines import Encoded, flatten, interleave, surround
from mindformers_megatron.tokenization.engines.adversarial import adversarial_texts
from mindformers_megatron.tokenization.engines.guard import EngineMismatchError, GuardedEngine
from mindformers_megatron.tokenization.engines.selection import choose_engine, load_engine
from mindformers_megatron.tokenization.engines.unassigned import has_unassigned
from mindformers_megatron.tokenization.tokenizer import Tokenizer, TokenizerSpec, open_tokenizer

GOLDEN = Path(__file__).parent.parent / "golden" / "preprocess" / "tokenizer"

gigatoken = pytest.importorskip("gigatoken")

# Which fast engines load the tokenizers of a family; SentencePiece's unigram and BERT's WordPiece are for none.
LOADS = {
    "gpt2": {"gigatoken", "tiktoken"},
    "gpt2_with_prefix_space": {"gigatoken"},
    "qwen": {"gigatoken", "tiktoken"},
    "llama3": {"gigatoken", "tiktoken"},
    "llama2": {"gigatoken"},
    "unigram": set(),
    "bert": set(),
}


@pytest.fixture(scope="session")
def opened(tmp_path_factory: pytest.TempPathFactory, golden_texts: list[str]) -> dict[tuple[str, bool], Tokenizer]:
    folder = tmp_path_factory.mktemp("families")
    return {
        (family, special): open_tokenizer(
            TokenizerSpec(path=write_folder(folder / family, family, golden_texts), add_special_tokens=special)
        )
        for family in FAMILIES
        for special in (False, True)
    }


class Reversed:
    """An engine that is wrong about texts with an x."""

    name, version = "reversed", "1"

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._engine = tokenizer.engine

    def encode(self, texts: Sequence[str]) -> Encoded:
        lists = [self._engine.encode([text])[0].tolist() for text in texts]
        return flatten([ids[::-1] if "x" in text else ids for text, ids in zip(texts, lists, strict=True)])


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("add_special_tokens", [False, True])
def test_auto_takes_the_fastest_engine_that_loads_a_family(
    family: str, add_special_tokens: bool, opened: dict[tuple[str, bool], Tokenizer], golden_texts: list[str]
) -> None:
    tokenizer = opened[family, add_special_tokens]
    found = {}
    for name in ("gigatoken", "tiktoken"):
        try:
            found[name] = choose_engine(tokenizer, name, golden_texts)
        except (ConfigError, EngineMismatchError) as error:
            assert "\n" not in str(error)
    assert set(found) == LOADS[family]
    fastest = next(iter(found), "hf")
    assert choose_engine(tokenizer, "auto", golden_texts).engine.name == fastest
    texts = [*adversarial_texts(500, list(tokenizer.special_tokens.values()), seed=1), *golden_texts]
    expected = [array.tolist() for array in tokenizer.engine.encode(texts)]
    for name, choice in found.items():
        alone = load_engine(tokenizer, name, by_threads=False)
        for engine in (choice.engine, alone):
            assert [array.tolist() for array in engine.encode(texts)] == expected


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_six_thousand_adversarial_texts_get_the_ids_of_the_library(
    family: str, opened: dict[tuple[str, bool], Tokenizer]
) -> None:
    for special in (False, True):
        tokenizer = opened[family, special]
        texts = adversarial_texts(6000, list(tokenizer.special_tokens.values()), seed=2)
        expected = [array.tolist() for array in tokenizer.engine.encode(texts)]
        for name in LOADS[family]:
            for by_threads in (True, False):
                engine = load_engine(tokenizer, name, by_threads=by_threads)
                assert [array.tolist() for array in engine.encode(texts)] == expected


@pytest.mark.parametrize("split", [False, True])
def test_special_tokens_in_text_are_encoded_or_split_alike_by_every_engine(split: bool) -> None:
    policy = "split" if split else "encode"
    tokenizer = open_tokenizer(TokenizerSpec(path=GOLDEN, special_tokens_in_text=policy))
    text = "a<|endoftext|>b"
    expected = tokenizer.engine.encode([text])[0].tolist()
    assert (0 in expected) is (not split)
    for name in ("gigatoken", "tiktoken"):
        assert choose_engine(tokenizer, name, [text]).engine.encode([text])[0].tolist() == expected


def test_sentencepiece_models_are_encoded_by_gigatoken_to_the_same_ids(
    sentencepiece_model: Path, golden_texts: list[str]
) -> None:
    tokenizer = open_tokenizer(TokenizerSpec(path=sentencepiece_model))
    choice = choose_engine(tokenizer, "auto", golden_texts)
    expected = [array.tolist() for array in tokenizer.engine.encode(golden_texts)]
    assert [array.tolist() for array in choice.engine.encode(golden_texts)] == expected
    with pytest.raises(ConfigError, match="hf cannot encode by a SentencePieceTokenizer; give auto or sentencepiece"):
        choose_engine(tokenizer, "hf", golden_texts)


def test_texts_with_unassigned_code_points_go_to_the_reference() -> None:
    texts = ["plain", "naïve 中文 😀", "\u0378", "a\U0001347c", "\U000e0080 z", "", "\ue000 private", "\ufffe"]
    assert has_unassigned(texts).tolist() == [False, False, True, True, True, False, False, True]
    tokenizer = open_tokenizer(TokenizerSpec(path=GOLDEN))
    engine = GuardedEngine(Reversed(tokenizer), tokenizer.engine, audited=0)
    mixed = ["abc", "x\u0378y z", "de f", "\u0378"]
    assert [array.tolist() for array in engine.encode(mixed)] == [
        array.tolist() for array in tokenizer.engine.encode(mixed)
    ]
    assert engine.take_counts() == (0, 2)
    assert engine.take_counts() == (0, 0)


@given(st.lists(st.text(st.characters(codec="utf-8"))))
def test_unassigned_is_what_the_unicode_of_this_python_has_not_given_out(texts: list[str]) -> None:
    expected = [any(unicodedata.category(character) == "Cn" for character in text) for text in texts]
    assert has_unassigned(texts).tolist() == expected


def test_the_audit_notices_other_ids_and_says_where() -> None:
    tokenizer = open_tokenizer(TokenizerSpec(path=GOLDEN))
    texts = ["abc"] * 200 + ["one x two"] * 200
    GuardedEngine(Reversed(tokenizer), tokenizer.engine, audited=0).encode(texts)
    engine = GuardedEngine(Reversed(tokenizer), tokenizer.engine, audited=0.1)
    with pytest.raises(EngineMismatchError, match=r"reversed 1 gives other ids than hf .* 'one x two': at token 0, \["):
        engine.encode(texts)


def test_an_audit_that_goes_on_beside_is_settled_once_by_the_thread_that_encoded() -> None:
    tokenizer = open_tokenizer(TokenizerSpec(path=GOLDEN))
    engine = GuardedEngine(Reversed(tokenizer), tokenizer.engine, audited=1.0)
    texts = ["abc", "one x two", "x" * 9]
    ids, lengths = engine.encode_ahead(texts)
    found, counted = Reversed(tokenizer).encode(texts)
    assert (ids.tolist(), lengths.tolist()) == (found.tolist(), counted.tolist())
    other = Thread(target=engine.settle)
    other.start()
    other.join()
    with pytest.raises(EngineMismatchError, match="'one x two'"):
        engine.settle()
    engine.settle()
    assert engine.take_counts() == (3, 0)


def test_no_more_than_a_megabyte_of_text_waits_for_the_audit() -> None:
    tokenizer = open_tokenizer(TokenizerSpec(path=GOLDEN))
    engine = GuardedEngine(Reversed(tokenizer), tokenizer.engine, audited=1.0)
    with pytest.raises(EngineMismatchError, match="'a x b"):
        engine.encode_ahead(["a x b " * 200_000])


def test_the_audit_chooses_the_same_texts_in_every_run() -> None:
    tokenizer = open_tokenizer(TokenizerSpec(path=GOLDEN))
    counts = set()
    for _ in range(3):
        engine = GuardedEngine(tokenizer.engine, tokenizer.engine, audited=0.05)
        engine.encode([f"text {number}" for number in range(1000)])
        counts.add(engine.take_counts())
    ((audited, referred),) = counts
    assert 20 < audited < 100
    assert referred == 0


def test_ids_are_put_around_texts() -> None:
    ids, lengths = np.array([1, 2, 3], np.int32), np.array([2, 0, 1])
    before, after = np.array([7, 8], np.int32), np.array([9], np.int32)
    found, longer = surround(ids, lengths, before, after)
    assert found.tolist() == [7, 8, 1, 2, 9, 7, 8, 9, 7, 8, 3, 9]
    assert longer.tolist() == [5, 3, 4]


def test_texts_encoded_apart_come_back_in_order() -> None:
    first, second = flatten([[1], [2, 3]]), flatten([[], [4]])
    ids, lengths = interleave(first, second, np.array([True, False, True, False]))
    assert (ids.tolist(), lengths.tolist()) == ([1, 4, 2, 3], [0, 1, 1, 2])


@pytest.mark.parametrize("in_processes", [False, True], ids=["threads", "forks"])
@pytest.mark.parametrize("workers", range(1, 9))
@pytest.mark.parametrize("engine", ["hf", "gigatoken", "tiktoken"])
def test_the_pair_is_megatrons_by_every_engine_and_any_number_of_workers(
    engine: str, workers: int, in_processes: bool, tmp_path: Path
) -> None:
    pytest.importorskip("tokenizers" if engine == "hf" else engine)
    report = run(
        GOLDEN.parent / "input.jsonl", tmp_path / "out", engine=engine, workers=workers, part_bytes=9_000,
        append_eod=True, in_processes=in_processes,
    )  # fmt: skip
    assert report.engine == engine
    assert_golden(tmp_path / "out", "eod")
