"""Ids back to text, for people to look at."""

from collections.abc import Callable, Sequence
from pathlib import Path

from mindformers_megatron.errors import ConfigError
from mindformers_megatron.tokenization.tokenizer import open_tokenizer
from mindformers_megatron.tokenization.tokenizer_files import TokenizerSpec

Decoder = Callable[[Sequence[int]], str]


def open_decoder(path: str | Path) -> Decoder:
    """Opens what turns ids into text, special tokens and all.

    Args:
        path: A tokenizer's folder or file, of any kind that texts are encoded by.

    Raises:
        ConfigError: There is no such path, or a tokenizer in it whose ids stand for no text.
        DataError: There is no tokenizer in it, or a damaged one.
    """
    path = Path(path)
    if not path.exists():
        raise ConfigError(f"{path}: no tokenizer.json or tokenizer.model there; expected a tokenizer's folder or file")
    tokenizer = open_tokenizer(TokenizerSpec(path=path))
    tokenizer.decode([])
    return lambda ids: tokenizer.decode([ids])[0]
