"""Where a tokenizer is on disk, and of which kind it is."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from mindformers_megatron.errors import ConfigError, DataError
from mindformers_megatron.tokenization.huggingface import CONFIG_FILE, TOKENIZER_FILE

# Megatron's names.
Kind = Literal[
    "HuggingFaceTokenizer",
    "GPT2BPETokenizer",
    "BertWordPieceLowerCase",
    "BertWordPieceCase",
    "SentencePieceTokenizer",
    "TikTokenizer",
    "NullTokenizer",
]
KINDS: tuple[Kind, ...] = get_args(Kind)
BERT_KINDS: tuple[Kind, ...] = ("BertWordPieceLowerCase", "BertWordPieceCase")
SpecialTokensInText = Literal["encode", "split", "error"]

_RANKS_HEAD = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenizerSpec:
    """Where a tokenizer is and how it is to be used.

    Attributes:
        path: a folder as ``transformers`` saves it, a ``tokenizer.json``, a SentencePiece ``.model``, or a file of
            tiktoken's.
        vocab_file: GPT-2's ``vocab.json`` or BERT's ``vocab.txt``, instead of ``path``.
        merge_file: GPT-2's ``merges.txt``, with ``vocab_file``.
        kind: what it must be; None: what the files are.
        add_special_tokens: add what the tokenizer puts around a text (a beginning-of-text token, for example) to each
            text.
        special_tokens_in_text: what becomes of a special token's name within a text: its id (``encode``, as Megatron
            does), what any other text becomes (``split``), or an error of the record (``error``).
        eod_token: the token that ends a document; None: the one the tokenizer's files name.
        eod_id: the same by its id.
        vocab_size: of a NullTokenizer, which has no file; or where a tiktoken file is cut, special tokens included.
        tiktoken_pattern: how tiktoken splits words, which its files do not say; None: known by the file's name.
        tiktoken_num_special_tokens: ids before those of a tiktoken vocabulary in JSON, which are its special tokens.
        tiktoken_special_tokens: the names of the first of these; None: Megatron's.
    """

    path: Path | None = None
    vocab_file: Path | None = None
    merge_file: Path | None = None
    kind: Kind | None = None
    add_special_tokens: bool = False
    special_tokens_in_text: SpecialTokensInText = "encode"
    eod_token: str | None = None
    eod_id: int | None = None
    vocab_size: int | None = None
    tiktoken_pattern: str | None = None
    tiktoken_num_special_tokens: int = 1000
    tiktoken_special_tokens: tuple[str, ...] | None = None


def locate(spec: TokenizerSpec) -> tuple[Kind, tuple[Path, ...]]:
    """The kind and the files of a tokenizer.

    Raises:
        ConfigError: the spec names none, or one of another kind than it says.
        DataError: its files are missing.
    """
    if spec.kind == "NullTokenizer":
        return "NullTokenizer", ()
    kind, files = _from_vocabulary(spec) if spec.path is None else _from_path(spec, spec.path)
    for file in files:
        if not file.is_file():
            raise DataError(f"{file}: no such file")
    if spec.kind is not None and spec.kind != kind:
        raise ConfigError(f"{files[0]}: is for a {kind}, and a {spec.kind} was asked for")
    return kind, files


def _from_vocabulary(spec: TokenizerSpec) -> tuple[Kind, tuple[Path, ...]]:
    if spec.vocab_file is None:
        raise ConfigError("no tokenizer given: pass its folder or file, or both --vocab-file and --merge-file")
    if spec.kind in BERT_KINDS:
        return spec.kind, (spec.vocab_file,)
    if spec.merge_file is not None:
        return "GPT2BPETokenizer", (spec.vocab_file, spec.merge_file)
    if spec.vocab_file.suffix == ".txt":
        names = " or ".join(BERT_KINDS)
        raise ConfigError(f"{spec.vocab_file}: say whether its words are in lower case: --tokenizer-type {names}")
    raise ConfigError(f"{spec.vocab_file}: a vocabulary needs its merges: pass both --vocab-file and --merge-file")


def _from_path(spec: TokenizerSpec, path: Path) -> tuple[Kind, tuple[Path, ...]]:
    if path.is_dir():
        return _from_folder(path)
    if not path.is_file():
        raise DataError(f"{path}: no such file or folder; tokenizers are opened from local files, so download it first")
    if path.suffix == ".json":
        return ("TikTokenizer" if spec.kind == "TikTokenizer" else "HuggingFaceTokenizer"), (path,)
    if path.suffix == ".txt" and spec.kind in BERT_KINDS:
        return spec.kind, (path,)
    if path.suffix == ".tiktoken" or _holds_ranks(path):
        return "TikTokenizer", (path,)
    if path.suffix == ".model":
        return "SentencePieceTokenizer", (path,)
    raise ConfigError(
        f"{path}: neither a folder, nor a tokenizer.json, nor a SentencePiece .model, nor a .tiktoken file"
    )


def _from_folder(folder: Path) -> tuple[Kind, tuple[Path, ...]]:
    if (folder / TOKENIZER_FILE).is_file():
        return "HuggingFaceTokenizer", (folder / TOKENIZER_FILE,)
    models = sorted([*folder.glob("*.model"), *folder.glob("*.tiktoken")])
    if len(models) == 1:
        return ("TikTokenizer" if _holds_ranks(models[0]) else "SentencePieceTokenizer"), (models[0],)
    name, lower = _class_of(folder)
    pair = (folder / "vocab.json", folder / "merges.txt")
    # Other families have such files too, and split words in other ways, which only their tokenizer.json tells.
    if name in ("", "GPT2", "Roberta") and all(file.is_file() for file in pair):
        return "GPT2BPETokenizer", pair
    if name == "Bert" and (folder / "vocab.txt").is_file():
        return BERT_KINDS[0 if lower else 1], (folder / "vocab.txt",)
    raise DataError(
        f"{folder}: has neither a {TOKENIZER_FILE} nor one SentencePiece .model; save_pretrained writes the former"
    )


def _class_of(folder: Path) -> tuple[str, bool]:
    try:
        config = json.loads((folder / CONFIG_FILE).read_text(encoding="utf-8"))
        name = str(config.get("tokenizer_class", "")).removesuffix("Fast").removesuffix("Tokenizer")
        return name, bool(config.get("do_lower_case", True))
    except (OSError, ValueError, AttributeError):
        return "", True


def _holds_ranks(path: Path) -> bool:
    """Whether it is a list of base64 and numbers: tiktoken's, under whatever name."""
    with path.open("rb") as file:
        first = file.read(_RANKS_HEAD).partition(b"\n")[0].split(b" ")
    return len(first) == 2 and first[1].isdigit() and first[0].isascii()
