"""Ids back to text, for people to look at."""

from collections.abc import Callable, Sequence
from pathlib import Path

from mindformers_megatron.errors import ConfigError, DataError

Decoder = Callable[[Sequence[int]], str]


def open_decoder(path: str | Path) -> Decoder:
    """Opens what turns ids into text, special tokens and all.

    Args:
        path: A tokenizer's folder, a ``tokenizer.json``, or a SentencePiece ``.model``.

    Raises:
        ConfigError: There is no such file in the path.
        DataError: The file is no tokenizer.
    """
    path = Path(path)
    for name in ("tokenizer.json", "tokenizer.model") if path.is_dir() else ("",):
        file = path / name if name else path
        if file.is_file():
            return _sentencepiece(file) if file.suffix == ".model" else _huggingface(file)
    raise ConfigError(f"{path}: no tokenizer.json or tokenizer.model there; expected a tokenizer's folder or file")


def _huggingface(file: Path) -> Decoder:
    from tokenizers import Tokenizer

    try:
        tokenizer = Tokenizer.from_file(str(file))
    except Exception as error:  # The library raises nothing narrower.
        raise DataError(f"{file}: no tokenizer of HF tokenizers ({str(error).splitlines()[0]})") from None

    def decode(ids: Sequence[int]) -> str:
        return str(tokenizer.decode(list(ids), skip_special_tokens=False))

    return decode


def _sentencepiece(file: Path) -> Decoder:
    try:
        from sentencepiece import SentencePieceProcessor
    except ImportError:
        raise ConfigError(f"{file}: needs sentencepiece; pip install sentencepiece") from None
    try:
        processor = SentencePieceProcessor(model_file=str(file))
    except (RuntimeError, OSError) as error:
        raise DataError(f"{file}: no SentencePiece model ({str(error).splitlines()[0]})") from None

    def decode(ids: Sequence[int]) -> str:
        size = processor.vocab_size()
        return str(processor.decode([int(token) for token in ids if 0 <= token < size]))

    return decode
