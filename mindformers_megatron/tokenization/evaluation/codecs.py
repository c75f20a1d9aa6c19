"""A tokenizer both ways: from texts to ids, and back."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from mindformers_megatron.errors import ConfigError
from mindformers_megatron.tokenization.engines import Encoded
from mindformers_megatron.tokenization.evaluation.vocab_sizes import shortened
from mindformers_megatron.tokenization.tiktoken_files import load_tiktoken
from mindformers_megatron.tokenization.tokenizer import Tokenizer, open_tokenizer
from mindformers_megatron.tokenization.tokenizer_files import TokenizerSpec, locate
from mindformers_megatron.tokenization.training.sentencepiece_json import to_tokenizer
from mindformers_megatron.tokenization.training.sentencepiece_model import BPE, UNIGRAM, parse_model


@dataclass(frozen=True, slots=True)
class Codec:
    """A tokenizer both ways.

    Attributes:
        name: what it is called in tables.
        family: the same without its size: what it was cut from.
        vocab_size: ids it has.
        unknown_id: stands for what it has no id for; None if there is no such id.
        encode: texts → ids and how many each text has.
        decode: the ids of some texts → the texts.
        state: the content of its ``tokenizer.json``, or of one that gives the same ids; None if there is none.
    """

    name: str
    family: str
    vocab_size: int
    unknown_id: int | None
    encode: Callable[[Sequence[str]], Encoded]
    decode: Callable[[Sequence[Sequence[int]]], list[str]]
    state: dict[str, Any] | None

    def with_vocab_size(self, vocab_size: int) -> "Codec":
        """What it would be if it had been trained to fewer ids.

        Raises:
            ConfigError: that cannot be told from it; see ``shortened``.
        """
        if self.state is None:
            raise ConfigError(
                f"{self.name}: only a BPE of Hugging Face or SentencePiece can be cut to {vocab_size} ids"
            )
        small = _of_json(self.name, json.dumps(shortened(self.state, vocab_size, self.name)))
        return replace(small, name=f"{self.name} @ {vocab_size}")


def open_codec(spec: TokenizerSpec) -> Codec:
    """Opens a tokenizer.

    Raises:
        ConfigError: the spec names none.
        DataError: its files are missing or damaged.
    """
    tokenizer = open_tokenizer(spec)
    content = tokenizer.json()
    if tokenizer.sentencepiece_file is not None:
        return _of_sentencepiece(tokenizer, tokenizer.sentencepiece_file)
    if content is not None:
        codec = _of_json(tokenizer.name, content.decode())
        return replace(codec, encode=tokenizer.engine.encode)
    kind, files = locate(spec)
    if kind != "TikTokenizer":
        raise ConfigError(f"{tokenizer.name}: a {kind} has no text to go back to")
    encoding = load_tiktoken(files[0], spec).encoding
    name, encode = tokenizer.name, tokenizer.engine.encode
    return Codec(name, name, tokenizer.vocab_size, None, encode, encoding.decode_batch, None)


def _of_sentencepiece(tokenizer: Tokenizer, file: Path) -> Codec:
    import sentencepiece

    processor: Any = sentencepiece.SentencePieceProcessor(model_file=str(file))

    def decode(ids: Sequence[Sequence[int]]) -> list[str]:
        texts: list[str] = processor.decode([list(map(int, of_text)) for of_text in ids])
        return texts

    unknown: int = processor.unk_id()
    name, encode = tokenizer.name, tokenizer.engine.encode
    model = parse_model(file.read_bytes())
    state = json.loads(to_tokenizer(model).to_str()) if model.kind in (BPE, UNIGRAM) else None
    return Codec(name, name, tokenizer.vocab_size, unknown, encode, decode, state)


def _of_json(name: str, content: str) -> Codec:
    import tokenizers

    from mindformers_megatron.tokenization.engines.huggingface import HuggingFaceEngine

    tokenizer = tokenizers.Tokenizer.from_str(content)
    state = json.loads(content)
    unknown = state["model"].get("unk_token")
    if state["model"].get("unk_id") is not None:
        unknown_id: int | None = state["model"]["unk_id"]
    else:
        unknown_id = None if unknown is None else tokenizer.token_to_id(unknown)

    def decode(ids: Sequence[Sequence[int]]) -> list[str]:
        texts: list[str] = tokenizer.decode_batch(list(ids), skip_special_tokens=False)
        return texts

    size = tokenizer.get_vocab_size(with_added_tokens=True)
    engine = HuggingFaceEngine(tokenizer, add_special_tokens=False)
    return Codec(name, name, size, unknown_id, engine.encode, decode, state)
