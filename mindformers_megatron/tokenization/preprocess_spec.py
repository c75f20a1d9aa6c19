"""What is asked of a tokenization."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mindformers_megatron.errors import ConfigError
from mindformers_megatron.tokenization.engines.selection import ENGINES, EngineName, OnMismatch
from mindformers_megatron.tokenization.sentences import SentenceSpec
from mindformers_megatron.tokenization.tokenizer_files import TokenizerSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class PreprocessSpec:
    """What is asked of a run.

    Attributes:
        inputs: see ``find_inputs``.
        output_prefix: each key makes the pair ``<output_prefix>_<key>_document``.
        tokenizer: what defines the ids.
        json_keys: the keys with the texts.
        append_eod: append the end-of-document token to each document that has tokens.
        rejects_allowed: lines that may be no records, 0: the first ends the run; None: any number. They are listed in
            ``<output_prefix>.rejected.jsonl``.
        sentences: cut texts into sentences, each a sequence of its document; None: a text is one sequence. Pairs are
            then called ``<output_prefix>_<key>_sentence``.
        engine: what encodes; ``auto``: the fastest that gives the same ids.
        on_mismatch: what is done when an engine gives other ids: stop, or encode all by the library that defines them.
        seq_length: noted in the metadata; the files are the same for every sequence length.
        md5: write ``<prefix>.md5`` beside each pair, as ``md5sum -c`` reads it.
        workers: None: one per core. The output does not depend on it.
        in_processes: each worker is a fork of this process, not a thread of it; None: where a fast engine encodes, or
            sentences are cut, unless this process has other threads, may have no children, or has to read the input
            from its beginning for them.
        part_bytes: bytes of input a worker takes at a time; None: by the size of the input. The output does not depend
            on it.
    """

    inputs: Sequence[str | os.PathLike[str]]
    output_prefix: str
    tokenizer: TokenizerSpec
    json_keys: tuple[str, ...] = ("text",)
    append_eod: bool = False
    rejects_allowed: int | None = 0
    sentences: SentenceSpec | None = None
    engine: EngineName = "auto"
    on_mismatch: OnMismatch = "stop"
    seq_length: int | None = None
    md5: bool = True
    workers: int | None = None
    in_processes: bool | None = None
    part_bytes: int | None = None

    def __post_init__(self) -> None:
        if not self.inputs:
            raise ConfigError("no input given")
        if not Path(self.output_prefix).name:
            raise ConfigError(f"output prefix {self.output_prefix!r} ends in no name")
        if not self.json_keys or len(set(self.json_keys)) < len(self.json_keys):
            raise ConfigError(f"json keys {list(self.json_keys)}: give at least one, and each once")
        for key in self.json_keys:
            if not key or "/" in key or "\0" in key:
                raise ConfigError(f"json key {key!r} cannot be part of a file name")
        if self.engine not in ENGINES:
            raise ConfigError(f"engine {self.engine!r}: not one of {', '.join(ENGINES)}")
        for name in ("seq_length", "workers", "part_bytes"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ConfigError(f"{name} is {value}; give 1 or more")

    @property
    def prefixes(self) -> list[str]:
        """The pairs, in the order of the keys."""
        level = "document" if self.sentences is None else "sentence"
        return [f"{self.output_prefix}_{key}_{level}" for key in self.json_keys]

    @property
    def rejects_path(self) -> Path:
        """Where lines that are no records are listed."""
        return Path(f"{self.output_prefix}.rejected.jsonl")

    @property
    def parts_folder(self) -> Path:
        """Where the run works; removed when it has succeeded, or has nothing in it that is worth going on from."""
        return Path(f"{self.output_prefix}.parts")
