"""A tokenizer both ways: from texts to ids, and back."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from mindformers_megatron.errors import ConfigError
from mindformers_megatron.tokenization.engines import Encoded
from mindformers_megatron.tokenization.evaluation.vocab_sizes import shortened
from mindformers_megatron.tokenization.tokenizer import open_tokenizer
from mindformers_megatron.tokenization.tokenizer_files import TokenizerSpec
from mindformers_megatron.tokenization.training.sentencepiece_json import to_tokenizer
from mindformers_megatron.tokenization.training.sentencepiece_model import BPE, UNIGRAM, UNKNOWN, parse_model


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
    tokenizer.decode([])  # refuses one that cannot
    content = tokenizer.json()
    state, unknown = None, None
    if tokenizer.sentencepiece_file is not None:
        model = parse_model(tokenizer.sentencepiece_file.read_bytes())
        unknown = next((id_ for id_, piece in enumerate(model.pieces) if piece.kind == UNKNOWN), None)
        state = json.loads(to_tokenizer(model).to_str()) if model.kind in (BPE, UNIGRAM) else None
    elif content is not None:
        state = json.loads(content)
        unknown = _unknown_id(state)
    name, size = tokenizer.name, tokenizer.vocab_size
    return Codec(name, name, size, unknown, tokenizer.engine.encode, tokenizer.decode, state)


def _of_json(name: str, content: str) -> Codec:
    import tokenizers

    from mindformers_megatron.tokenization.engines.huggingface import HuggingFaceEngine

    tokenizer = tokenizers.Tokenizer.from_str(content)
    state = json.loads(content)

    def decode(ids: Sequence[Sequence[int]]) -> list[str]:
        texts: list[str] = tokenizer.decode_batch(list(ids), skip_special_tokens=False)
        return texts

    size = tokenizer.get_vocab_size(with_added_tokens=True)
    engine = HuggingFaceEngine(tokenizer, add_special_tokens=False)
    return Codec(name, name, size, _unknown_id(state), engine.encode, decode, state)


def _unknown_id(state: dict[str, Any]) -> int | None:
    model = state["model"]
    if model.get("unk_id") is not None:
        return int(model["unk_id"])
    if (unknown := model.get("unk_token")) is None:
        return None
    added = {token["content"]: token["id"] for token in state.get("added_tokens", [])}
    id_: int | None = added.get(unknown, model["vocab"].get(unknown))
    return id_
