"""Tokenizers: what one is once it has been opened, and opening it."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from mindformers_megatron.errors import ConfigError, DataError
from mindformers_megatron.tokenization.engines import Engine, IdArray
from mindformers_megatron.tokenization.engines.huggingface import HuggingFaceEngine
from mindformers_megatron.tokenization.engines.null import NullEngine
from mindformers_megatron.tokenization.engines.sentencepiece import SentencePieceEngine
from mindformers_megatron.tokenization.engines.tiktoken import TiktokenEngine
from mindformers_megatron.tokenization.eod import Vocabulary, asked_eod, declared_eod
from mindformers_megatron.tokenization.huggingface import (
    HuggingFaceFiles,
    load_bert,
    load_gpt2,
    load_tokenizer_json,
)
from mindformers_megatron.tokenization.tiktoken_files import load_tiktoken
from mindformers_megatron.tokenization.tokenizer_files import Kind, TokenizerSpec, locate

__all__ = ["Kind", "Tokenizer", "TokenizerSpec", "open_tokenizer"]


def _nothing_around() -> tuple[IdArray, IdArray]:
    return np.empty(0, np.int32), np.empty(0, np.int32)


@dataclass(frozen=True, slots=True)
class Tokenizer:
    """A tokenizer that has been opened.

    Attributes:
        name: path it was opened from.
        kind: what it is.
        files: SHA-256, hex, of each file that decides which ids a text gets, by file name.
        library: what defines the ids.
        library_version: its version.
        vocab_size: ids it knows, added tokens included, as Megatron counts them.
        eod_id: the token that ends a document, None if nothing names one.
        eod_token: the same as text.
        engine: what defines the ids.
        special_tokens: the names that become ids of their own wherever they stand in a text, by id.
        splits_special_tokens: they do not; they are text like any other.
        sentencepiece_file: the model, of a SentencePiece tokenizer.
    """

    name: str
    kind: Kind
    files: dict[str, str]
    library: str
    library_version: str
    vocab_size: int
    _find_largest_id: Callable[[], int]
    eod_id: int | None
    eod_token: str | None
    engine: Engine
    special_tokens: Mapping[int, str] = field(default_factory=dict)
    splits_special_tokens: bool = False
    sentencepiece_file: Path | None = None
    _json: Callable[[], bytes] | None = None
    _find_around: Callable[[], tuple[IdArray, IdArray]] = _nothing_around
    _decode: Callable[[list[list[int]]], list[str]] | None = None

    @property
    def largest_id(self) -> int:
        """The largest of its ids, not always ``vocab_size - 1``. It has to be looked for among all of them."""
        return self._find_largest_id()

    def decode(self, ids: Sequence[Sequence[int]]) -> list[str]:
        """The ids of some texts → the texts, special tokens and all.

        Raises:
            ConfigError: its ids stand for no text.
        """
        if self._decode is None:
            raise ConfigError(f"{self.name}: a {self.kind} has no text to go back to")
        return self._decode([list(map(int, of_text)) for of_text in ids])

    def require_eod(self) -> int:
        """The token that ends a document.

        Raises:
            ConfigError: nothing names one.
        """
        if self.eod_id is None:
            raise ConfigError(
                f"{self.name}: its files name no end-of-document token; pass --eod-token TOKEN or --eod-id ID, "
                "or leave --append-eod out"
            )
        return self.eod_id

    def json(self) -> bytes | None:
        """The content of a ``tokenizer.json`` that gives the same ids, None if there can be none."""
        return None if self._json is None else self._json()

    def added_around(self) -> tuple[IdArray, IdArray]:
        """The ids that are put before and behind each text."""
        return self._find_around()


def open_tokenizer(spec: TokenizerSpec) -> Tokenizer:
    """Opens a tokenizer.

    Raises:
        ConfigError: the spec names none, or one that is not what it says.
        DataError: its files are missing or damaged.
    """
    kind, files = locate(spec)
    if kind == "NullTokenizer":
        return _open_null(spec)
    if kind == "SentencePieceTokenizer":
        return _open_sentencepiece(spec, files[0])
    if kind == "TikTokenizer":
        return _open_tiktoken(spec, files[0])
    if kind == "GPT2BPETokenizer":
        return _open_huggingface(spec, kind, load_gpt2(*files))
    if kind == "HuggingFaceTokenizer":
        return _open_huggingface(spec, kind, load_tokenizer_json(files[0]))
    return _open_huggingface(spec, kind, load_bert(files[0], lowercase=kind == "BertWordPieceLowerCase"))


def _open_huggingface(spec: TokenizerSpec, kind: Kind, loaded: HuggingFaceFiles) -> Tokenizer:
    tokenizer = loaded.tokenizer
    name = str(spec.path or spec.vocab_file)
    vocabulary = Vocabulary(
        name, tokenizer.token_to_id, lambda id_: tokenizer.id_to_token(id_) if 0 <= id_ < 2**32 else None
    )
    eod = asked_eod(vocabulary, spec.eod_token, spec.eod_id)
    if eod is None:
        eod = declared_eod(loaded, vocabulary)
    if spec.special_tokens_in_text == "split":
        tokenizer.encode_special_tokens = True
    engine = HuggingFaceEngine(tokenizer, add_special_tokens=spec.add_special_tokens)
    splits = bool(tokenizer.encode_special_tokens)

    def decode(ids: list[list[int]]) -> list[str]:
        texts: list[str] = tokenizer.decode_batch(ids, skip_special_tokens=False)
        return texts

    added = tokenizer.get_added_tokens_decoder()
    size: int = tokenizer.get_vocab_size(with_added_tokens=True)
    return Tokenizer(
        name=name,
        kind=kind,
        files={file.name: _sha256(file) for file in loaded.files},
        library="tokenizers",
        library_version=engine.version,
        vocab_size=size,
        _find_largest_id=lambda: _largest_id(tokenizer, size),
        eod_id=eod,
        eod_token=None if eod is None else vocabulary.token_of(eod),
        engine=engine,
        special_tokens={id_: token.content for id_, token in added.items() if token.special},
        splits_special_tokens=splits,
        _json=loaded.json,
        _find_around=engine.added_around,
        _decode=decode,
    )


def _largest_id(tokenizer: Any, size: int) -> int:
    # Where there are no gaps, which is nearly always, no dictionary of all tokens has to be built to see it.
    if None not in map(tokenizer.id_to_token, range(size)):
        return max(size - 1, 0)
    return max(tokenizer.get_vocab(with_added_tokens=True).values(), default=0)


def _open_sentencepiece(spec: TokenizerSpec, model: Path) -> Tokenizer:
    try:
        import sentencepiece
    except ImportError:
        raise ConfigError(f"{model}: needs the sentencepiece package; pip install sentencepiece") from None
    try:
        processor: Any = sentencepiece.SentencePieceProcessor(model_file=str(model))
    except (OSError, RuntimeError) as error:
        reason = str(error).partition("\n")[0]
        raise DataError(f"{model}: is no SentencePiece model: {reason}") from None
    size: int = processor.get_piece_size()

    def id_of(token: str) -> int | None:
        id_: int = processor.piece_to_id(token)
        return id_ if processor.id_to_piece(id_) == token else None

    vocabulary = Vocabulary(str(model), id_of, lambda id_: processor.id_to_piece(id_) if 0 <= id_ < size else None)
    eod = asked_eod(vocabulary, spec.eod_token, spec.eod_id)
    if eod is None and processor.eos_id() >= 0:
        eod = processor.eos_id()
    return Tokenizer(
        name=str(spec.path),
        kind="SentencePieceTokenizer",
        files={model.name: _sha256(model)},
        library="sentencepiece",
        library_version=sentencepiece.__version__,
        vocab_size=size,
        _find_largest_id=lambda: size - 1,
        eod_id=eod,
        eod_token=None if eod is None else vocabulary.token_of(eod),
        engine=SentencePieceEngine(processor),
        sentencepiece_file=model,
        # It refuses ids that it does not have.
        _decode=lambda ids: processor.decode([[id_ for id_ in of_text if 0 <= id_ < size] for of_text in ids]),
    )


def _open_tiktoken(spec: TokenizerSpec, file: Path) -> Tokenizer:
    loaded = load_tiktoken(file, spec)
    splits = spec.special_tokens_in_text == "split"
    engine = TiktokenEngine(loaded.encoding, () if splits else loaded.special_tokens)
    tokens = {id_: token for token, id_ in loaded.special_tokens.items()}

    def token_of(id_: int) -> str | None:
        if id_ in tokens:
            return tokens[id_]
        try:
            return loaded.encoding.decode_single_token_bytes(id_).decode(errors="replace")
        except (KeyError, OverflowError):
            return None

    vocabulary = Vocabulary(str(file), loaded.special_tokens.get, token_of)
    eod = asked_eod(vocabulary, spec.eod_token, spec.eod_id)
    if eod is None:
        eod = loaded.special_tokens[loaded.eod]
    return Tokenizer(
        name=str(spec.path),
        kind="TikTokenizer",
        files={file.name: _sha256(file)},
        library="tiktoken",
        library_version=engine.version,
        vocab_size=loaded.encoding.n_vocab,
        _find_largest_id=lambda: loaded.encoding.max_token_value,
        eod_id=eod,
        eod_token=token_of(eod),
        engine=engine,
        special_tokens=tokens,
        splits_special_tokens=splits,
        _decode=loaded.encoding.decode_batch,
    )


def _open_null(spec: TokenizerSpec) -> Tokenizer:
    if spec.vocab_size is None or spec.vocab_size < 1:
        raise ConfigError("a NullTokenizer has no file; give its number of ids as --vocab-size")
    size = spec.vocab_size
    eod = size if spec.eod_id is None else spec.eod_id
    engine = NullEngine(size)
    return Tokenizer(
        name="NullTokenizer",
        kind="NullTokenizer",
        files={},
        library=engine.name,
        library_version=engine.version,
        vocab_size=size + 1,
        _find_largest_id=lambda: size,
        eod_id=eod,
        eod_token=None,
        engine=engine,
    )


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
