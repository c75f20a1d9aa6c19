"""Tokenizers: where one is, what it is, and opening it."""

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from mindformers_megatron.errors import ConfigError, DataError
from mindformers_megatron.tokenization.engines import Engine, HuggingFaceEngine, SentencePieceEngine
from mindformers_megatron.tokenization.eod import Vocabulary, asked_eod, declared_eod
from mindformers_megatron.tokenization.huggingface import (
    TOKENIZER_FILE,
    HuggingFaceFiles,
    load_gpt2,
    load_tokenizer_json,
)

# Megatron's names.
Kind = Literal["HuggingFaceTokenizer", "GPT2BPETokenizer", "SentencePieceTokenizer"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenizerSpec:
    """Where a tokenizer is and how it is to be used.

    Attributes:
        path: a folder as ``transformers`` saves it, a ``tokenizer.json``, or a SentencePiece ``.model``.
        vocab_file: GPT-2's ``vocab.json``, instead of ``path``.
        merge_file: GPT-2's ``merges.txt``, with ``vocab_file``.
        kind: what it must be; None: what the files are.
        add_special_tokens: add what the tokenizer puts around a text (a beginning-of-text token, for example) to each
            text.
        eod_token: the token that ends a document; None: the one the tokenizer's files name.
        eod_id: the same by its id.
    """

    path: Path | None = None
    vocab_file: Path | None = None
    merge_file: Path | None = None
    kind: Kind | None = None
    add_special_tokens: bool = False
    eod_token: str | None = None
    eod_id: int | None = None


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
        largest_id: the largest of them. Not always ``vocab_size - 1``.
        eod_id: the token that ends a document, None if nothing names one.
        eod_token: the same as text.
        engine: what encodes.
    """

    name: str
    kind: Kind
    files: dict[str, str]
    library: str
    library_version: str
    vocab_size: int
    largest_id: int
    eod_id: int | None
    eod_token: str | None
    engine: Engine

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


def open_tokenizer(spec: TokenizerSpec) -> Tokenizer:
    """Opens a tokenizer.

    Raises:
        ConfigError: the spec names none, or one that is not what it says.
        DataError: its files are missing or damaged.
    """
    kind, files = _locate(spec)
    if spec.kind is not None and spec.kind != kind:
        raise ConfigError(f"{files[0]}: is for a {kind}, and a {spec.kind} was asked for")
    if kind == "SentencePieceTokenizer":
        return _open_sentencepiece(spec, files[0])
    loaded = load_gpt2(*files) if kind == "GPT2BPETokenizer" else load_tokenizer_json(files[0])
    return _open_huggingface(spec, kind, loaded)


def _locate(spec: TokenizerSpec) -> tuple[Kind, tuple[Path, ...]]:
    if spec.path is None:
        if spec.vocab_file is None or spec.merge_file is None:
            raise ConfigError("no tokenizer given: pass its folder or file, or both --vocab-file and --merge-file")
        return "GPT2BPETokenizer", (spec.vocab_file, spec.merge_file)
    path = spec.path
    if path.is_dir():
        if (path / TOKENIZER_FILE).is_file():
            return "HuggingFaceTokenizer", (path / TOKENIZER_FILE,)
        models = sorted(path.glob("*.model"))
        if len(models) == 1:
            return "SentencePieceTokenizer", (models[0],)
        raise DataError(
            f"{path}: has neither a {TOKENIZER_FILE} nor one SentencePiece .model; save_pretrained writes the former"
        )
    if not path.is_file():
        raise DataError(f"{path}: no such file or folder; tokenizers are opened from local files, so download it first")
    if path.suffix == ".json":
        return "HuggingFaceTokenizer", (path,)
    if path.suffix == ".model":
        return "SentencePieceTokenizer", (path,)
    raise ConfigError(f"{path}: neither a folder, nor a tokenizer.json, nor a SentencePiece .model")


def _open_huggingface(spec: TokenizerSpec, kind: Kind, loaded: HuggingFaceFiles) -> Tokenizer:
    tokenizer = loaded.tokenizer
    name = str(spec.path or spec.vocab_file)
    vocabulary = Vocabulary(
        name, tokenizer.token_to_id, lambda id_: tokenizer.id_to_token(id_) if 0 <= id_ < 2**32 else None
    )
    eod = asked_eod(vocabulary, spec.eod_token, spec.eod_id)
    if eod is None:
        eod = declared_eod(loaded, vocabulary)
    engine = HuggingFaceEngine(tokenizer, add_special_tokens=spec.add_special_tokens)
    return Tokenizer(
        name=name,
        kind=kind,
        files={file.name: _sha256(file) for file in loaded.files},
        library="tokenizers",
        library_version=engine.version,
        vocab_size=tokenizer.get_vocab_size(with_added_tokens=True),
        largest_id=max(tokenizer.get_vocab(with_added_tokens=True).values(), default=0),
        eod_id=eod,
        eod_token=None if eod is None else vocabulary.token_of(eod),
        engine=engine,
    )


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
        largest_id=size - 1,
        eod_id=eod,
        eod_token=None if eod is None else vocabulary.token_of(eod),
        engine=SentencePieceEngine(processor),
    )


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
