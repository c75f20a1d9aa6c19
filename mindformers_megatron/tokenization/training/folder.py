"""A trained tokenizer on disk: a folder as ``transformers`` reads it, or SentencePiece's two files."""

import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mindformers_megatron.errors import ConfigError
from mindformers_megatron.format.atomic import sync_folder, temporary_path, write_atomically
from mindformers_megatron.tokenization.huggingface import CONFIG_FILE, SPECIAL_TOKENS_FILE, TOKENIZER_FILE
from mindformers_megatron.tokenization.training.trained import TrainedTokenizer

RECORD = "training.json"


@dataclass(frozen=True, slots=True)
class Destination:
    """Where a tokenizer goes.

    What is there already is never overwritten: tokens that were made with it would lose their meaning.

    Attributes:
        folder: becomes a folder with everything; None for none.
        model_prefix: SentencePiece's files alone become ``<prefix>.model`` and ``<prefix>.vocab``; None for none.
    """

    folder: Path | None
    model_prefix: str | None = None

    def check(self) -> None:
        """Looks whether everything can be written, to know before the work.

        Raises:
            ConfigError: it cannot.
        """
        if self.folder is None and self.model_prefix is None:
            raise ConfigError("no place to write to; pass --output FOLDER")
        if self.folder is not None and _occupied(self.folder):
            raise ConfigError(f"{self.folder}: is there already; choose another --output, or remove it")
        for path in self._model_paths():
            if path.exists():
                raise ConfigError(f"{path}: is there already; choose another --model-prefix, or remove it")

    def write(self, trained: TrainedTokenizer, record: Mapping[str, Any]) -> None:
        """Writes a tokenizer, and how it was made. The folder is there whole or not at all.

        Args:
            trained: the tokenizer.
            record: JSON values for ``training.json``.

        Raises:
            ConfigError: it has no SentencePiece model, or something has come to be there since ``check``.
        """
        noted = _json(record)
        if self.model_prefix is not None:
            if ".model" not in trained.files:
                raise ConfigError("--model-prefix is for SentencePiece models; pass --output FOLDER")
            self.check()
            Path(self.model_prefix).parent.mkdir(parents=True, exist_ok=True)
            # The model last: without it, nothing takes the others for a tokenizer.
            for path, data in zip(
                self._model_paths(), (noted, trained.files[".vocab"], trained.files[".model"]), strict=True
            ):
                write_atomically(path, data)
        if self.folder is not None:
            _write_folder(self.folder, {**_contents(trained), RECORD: noted})

    def _model_paths(self) -> list[Path]:
        suffixes = (f".{RECORD}", ".vocab", ".model")
        return [] if self.model_prefix is None else [Path(self.model_prefix + suffix) for suffix in suffixes]


def _contents(trained: TrainedTokenizer) -> dict[str, bytes]:
    """The files of a folder."""
    roles = {f"{role}_token": token for role, token in trained.roles.items() if role != "eod"}
    eod = trained.roles.get("eod")
    others = [eod] if eod is not None and eod not in roles.values() else []
    extra: dict[str, Any] = {"additional_special_tokens": others} if others else {}
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        **roles,
        **extra,
        **({"eod_token": eod} if others else {}),
        "clean_up_tokenization_spaces": False,
        "model_input_names": ["input_ids", "attention_mask"],
    }
    files = {name if not name.startswith(".") else f"tokenizer{name}": data for name, data in trained.files.items()}
    return {
        **files,
        SPECIAL_TOKENS_FILE: _json({**roles, **extra}),
        CONFIG_FILE: _json(config),
        TOKENIZER_FILE: trained.tokenizer.to_str(pretty=True).encode(),
    }


def _write_folder(folder: Path, files: Mapping[str, bytes]) -> None:
    folder.parent.mkdir(parents=True, exist_ok=True)
    staged = temporary_path(folder.with_name(f".{folder.name}"))
    staged.mkdir()
    try:
        for name, data in files.items():
            write_atomically(staged / name, data)
        try:
            # Takes the place of an empty folder, and of nothing else.
            staged.rename(folder)
        except OSError as error:
            raise ConfigError(
                f"{folder}: cannot be written: {error.strerror}; it has come to be there meanwhile"
            ) from None
        sync_folder(folder.parent)
    finally:
        shutil.rmtree(staged, ignore_errors=True)


def _occupied(folder: Path) -> bool:
    if folder.is_dir():
        return any(folder.iterdir())
    return folder.exists()


def _json(values: Mapping[str, Any]) -> bytes:
    return (json.dumps(values, indent=2, ensure_ascii=False) + "\n").encode("utf-8", "backslashreplace")
