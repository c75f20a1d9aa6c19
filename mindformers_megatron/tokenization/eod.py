"""Which token ends a document."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from mindformers_megatron.errors import ConfigError, DataError
from mindformers_megatron.tokenization.huggingface import HuggingFaceFiles, content_of

# What published tokenizers call it. Looked for among the special tokens only, where nothing else says which one it is.
_USUAL_NAMES = (
    "<|endoftext|>",
    "<|end_of_text|>",
    "<|eod|>",
    "<eod>",
    "</s>",
    "<eos>",
    "[EOS]",
    "<|end▁of▁sentence|>",
    "<｜end▁of▁sentence｜>",
)


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """What is needed of a vocabulary to name one of its tokens.

    Attributes:
        name: the tokenizer, for messages.
        id_of: id of a token, None if there is none.
        token_of: token of an id, likewise.
    """

    name: str
    id_of: Callable[[str], int | None]
    token_of: Callable[[int], str | None]


def asked_eod(vocabulary: Vocabulary, token: str | None, id_: int | None) -> int | None:
    """The id of the token or id asked for, checked against the vocabulary; None if nothing was asked for.

    Raises:
        ConfigError: it is not in the vocabulary, or both are given and differ.
    """
    named = None
    if token is not None:
        named = vocabulary.id_of(token)
        if named is None:
            raise ConfigError(
                f"{vocabulary.name}: its vocabulary has no token {token!r}; give one it has as --eod-token"
            )
    if id_ is None:
        return named
    if named is not None and named != id_:
        raise ConfigError(
            f"{vocabulary.name}: token {token!r} has id {named}, not {id_}; give one of --eod-token and --eod-id"
        )
    if vocabulary.token_of(id_) is None:
        raise ConfigError(f"{vocabulary.name}: its vocabulary has no id {id_}; give one it has as --eod-id")
    return id_


def declared_eod(files: HuggingFaceFiles, vocabulary: Vocabulary) -> int | None:
    """The id of the token that ends a document by what the tokenizer's files say, None if they do not say.

    Its ``eod_token``, which ``mfm train-tokenizer`` notes if it is not the ``eos_token``; else its ``eos_token``; else
    its ``sep_token``, as Megatron takes it for BERT; else what its generation configuration stops at; else the one
    special token with a usual name, if there is exactly one.

    Raises:
        DataError: the files name a token that the vocabulary does not have.
    """
    for key in ("eod_token", "eos_token", "sep_token"):
        if token := files.config.get(key):
            return _must_have(vocabulary.id_of(content_of(token)), f"{key} {content_of(token)!r}", vocabulary)
    stops = files.generation.get("eos_token_id")
    stop: Any = stops[0] if isinstance(stops, list) and stops else stops
    if isinstance(stop, int):
        return _must_have(stop if vocabulary.token_of(stop) is not None else None, f"eos_token_id {stop}", vocabulary)
    special = {token.content for token in files.tokenizer.get_added_tokens_decoder().values() if token.special}
    usual = [name for name in _USUAL_NAMES if name in special]
    return vocabulary.id_of(usual[0]) if len(usual) == 1 else None


def _must_have(id_: int | None, what: str, vocabulary: Vocabulary) -> int:
    if id_ is None:
        raise DataError(f"{vocabulary.name}: its files name {what}, which its vocabulary does not have")
    return id_
