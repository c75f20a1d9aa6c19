from pathlib import Path

import pytest
from families import FAMILIES
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer

from mindformers_megatron.tokenization.engines.huggingface import HuggingFaceEngine
from mindformers_megatron.tokenization.long_texts import LONG_TEXT, encode_in_windows

GOLDEN = Tokenizer.from_file(
    str(Path(__file__).parent.parent / "golden" / "preprocess" / "tokenizer" / "tokenizer.json")
)


@settings(max_examples=300)
@given(
    words=st.lists(st.sampled_from(["a", " the", "  ", "\n\n", "x" * 40, "中文", "😀", "<|endoftext|>", "'s", " 12"])),
    window=st.integers(5, 30),
)
def test_windows_give_the_ids_of_the_whole_text(words: list[str], window: int) -> None:
    text = "".join(words)
    found = encode_in_windows(
        lambda part: GOLDEN.encode(part, add_special_tokens=False), text, window=window, margin=20
    )
    assert found.tolist() == GOLDEN.encode(text, add_special_tokens=False).ids


@pytest.mark.parametrize("window", [200, 3000])
@pytest.mark.parametrize("family", FAMILIES)
def test_windows_give_the_ids_of_the_whole_text_for_every_family(
    family: str, window: int, golden_texts: list[str]
) -> None:
    tokenizer, _ = FAMILIES[family](golden_texts)
    text = "\n".join(golden_texts)[:40_000]
    found = encode_in_windows(
        lambda part: tokenizer.encode(part, add_special_tokens=False), text, window=window, margin=100
    )
    assert found.tolist() == tokenizer.encode(text, add_special_tokens=False).ids


def test_windows_are_small_however_long_the_text_is(golden_texts: list[str]) -> None:
    text = " ".join(text for text in golden_texts if "x" * 1000 not in text)
    sizes = []

    def encode(part: str) -> object:
        sizes.append(len(part))
        return GOLDEN.encode(part, add_special_tokens=False)

    encode_in_windows(encode, text, window=2000, margin=100)  # type: ignore[arg-type]
    assert max(sizes) == 2100
    assert sum(sizes) < 1.2 * len(text)


@pytest.mark.parametrize("add_special_tokens", [False, True])
def test_the_engine_encodes_long_and_short_texts_alike(add_special_tokens: bool, golden_texts: list[str]) -> None:
    tokenizer, _ = FAMILIES["llama3"](golden_texts)
    engine = HuggingFaceEngine(tokenizer, add_special_tokens=add_special_tokens)
    everything = "\n".join(golden_texts)
    text = (everything * (LONG_TEXT // len(everything) + 1))[: LONG_TEXT + 1]
    ids, lengths = engine.encode(["short", text, ""])
    parts = [tokenizer.encode(part, add_special_tokens=add_special_tokens).ids for part in ("short", text, "")]
    assert lengths.tolist() == [len(part) for part in parts]
    assert ids.tolist() == [id_ for part in parts for id_ in part]
