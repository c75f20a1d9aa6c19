"""Ids equal those of ``transformers``, with which Megatron's tool encodes."""

import json
from pathlib import Path

import numpy as np
import pytest
from families import FAMILIES, write_folder

from mindformers_megatron.errors import ConfigError, DataError
from mindformers_megatron.tokenization.tokenizer import TokenizerSpec, open_tokenizer

WITH_TOKENS_INSIDE = [
    "<|im_start|>user\n<think>x</think>",
    "<s>a</s> b",
    "a<extra_id_0>b",
    "[MASK] [SEP]x",
    " <unk>",
    "before<|endoftext|>after",
    "  a  b ",
    "\n\na",
    "",
    " ",
]


@pytest.fixture(scope="session")
def folders(tmp_path_factory: pytest.TempPathFactory, golden_texts: list[str]) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("families")
    return {family: write_folder(root / family, family, golden_texts) for family in FAMILIES}


@pytest.mark.parametrize("add_special_tokens", [False, True])
@pytest.mark.parametrize("family", FAMILIES)
def test_ids_equal_those_of_transformers(
    family: str, add_special_tokens: bool, folders: dict[str, Path], golden_texts: list[str]
) -> None:
    transformers = pytest.importorskip("transformers")
    theirs = transformers.AutoTokenizer.from_pretrained(folders[family])
    ours = open_tokenizer(TokenizerSpec(path=folders[family], add_special_tokens=add_special_tokens))
    texts = golden_texts + WITH_TOKENS_INSIDE
    ids, lengths = ours.engine.encode(texts)
    found = [piece.tolist() for piece in np.split(ids, np.cumsum(lengths)[:-1])]
    if add_special_tokens:
        assert found == [theirs(text).input_ids for text in texts]
    else:
        assert found == [theirs.convert_tokens_to_ids(theirs.tokenize(text)) for text in texts]
    assert ours.vocab_size == len(theirs)
    assert ours.eod_token == (theirs.eos_token or theirs.sep_token)


def test_only_files_that_decide_ids_count(folders: dict[str, Path]) -> None:
    assert set(open_tokenizer(TokenizerSpec(path=folders["gpt2"])).files) == {"tokenizer.json"}
    assert set(open_tokenizer(TokenizerSpec(path=folders["qwen"])).files) == {"tokenizer.json", "tokenizer_config.json"}


def test_texts_are_neither_truncated_nor_padded(folders: dict[str, Path], tmp_path: Path) -> None:
    state = json.loads((folders["gpt2"] / "tokenizer.json").read_text())
    state["truncation"] = {"direction": "Right", "max_length": 3, "strategy": "LongestFirst", "stride": 0}
    state["padding"] = {
        "strategy": "BatchLongest", "direction": "Right", "pad_to_multiple_of": None, "pad_id": 0, "pad_type_id": 0,
        "pad_token": "<|endoftext|>",
    }  # fmt: skip
    (tmp_path / "tokenizer.json").write_text(json.dumps(state))
    text = "one two three four five six seven"
    plain = open_tokenizer(TokenizerSpec(path=folders["gpt2"])).engine.encode([text, "a"])
    cut = open_tokenizer(TokenizerSpec(path=tmp_path)).engine.encode([text, "a"])
    assert [a.tolist() for a in cut] == [a.tolist() for a in plain]


def test_dropout_is_refused(folders: dict[str, Path], tmp_path: Path) -> None:
    state = json.loads((folders["gpt2"] / "tokenizer.json").read_text())
    state["model"]["dropout"] = 0.1
    (tmp_path / "tokenizer.json").write_text(json.dumps(state))
    with pytest.raises(ConfigError, match=r"BPE dropout is 0\.1.*random"):
        open_tokenizer(TokenizerSpec(path=tmp_path))


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("tokenizer.json", "{", "is no tokenizer.json"),
        ("tokenizer.json", '{"model": {"type": "Nothing"}}', "is no tokenizer.json"),
        ("tokenizer_config.json", "{", "is no readable JSON"),
        ("tokenizer_config.json", "[]", "holds no JSON object"),
        ("tokenizer_config.json", '{"eos_token": 7}', "its tokens are not as transformers writes them"),
        ("tokenizer_config.json", '{"added_tokens_decoder": {"x": {}}}', "its tokens are not as transformers writes"),
        ("tokenizer_config.json", '{"added_tokens_decoder": []}', "its tokens are not as transformers writes them"),
        ("tokenizer_config.json", '{"additional_special_tokens": 1}', "its tokens are not as transformers writes them"),
        ("tokenizer_config.json", '{"tokenizer_class": "LlamaTokenizer"}', "add_bos_token is set, but there is no bos"),
        ("special_tokens_map.json", '{"eos_token": {"text": "a"}}', "its tokens are not as transformers writes them"),
    ],
)
def test_a_damaged_file_is_named_in_one_line(
    name: str, content: str, reason: str, folders: dict[str, Path], tmp_path: Path
) -> None:
    (tmp_path / "tokenizer.json").write_bytes((folders["gpt2"] / "tokenizer.json").read_bytes())
    (tmp_path / name).write_text(content)
    with pytest.raises(DataError, match=reason) as caught:
        open_tokenizer(TokenizerSpec(path=tmp_path))
    assert "\n" not in str(caught.value)
