"""What is written beside a pair: its checksums and its metadata."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mindformers_megatron.format.checksums import write_md5
from mindformers_megatron.format.metadata import SourceInfo, write_metadata
from mindformers_megatron.tokenization.inputs import InputFile, InputHasher
from mindformers_megatron.tokenization.pair_metadata import pair_metadata
from mindformers_megatron.tokenization.preprocess_report import PreprocessReport
from mindformers_megatron.tokenization.preprocess_spec import PreprocessSpec
from mindformers_megatron.tokenization.tokenizer import Tokenizer


def describe_pairs(
    spec: PreprocessSpec,
    report: PreprocessReport,
    tokenizer: Tokenizer,
    files: Sequence[InputFile],
    hasher: InputHasher,
) -> None:
    """Writes what goes with each pair of a run.

    Args:
        spec: what was asked.
        report: what was done.
        tokenizer: what defined the ids.
        files: the input.
        hasher: has taken them in.
    """
    sources = tuple(_source(file, hasher) for file in files)
    for key, (prefix, pair) in zip(spec.json_keys, report.pairs.items(), strict=True):
        if spec.md5:
            write_md5(prefix, pair)
        else:
            # That of an earlier pair says nothing about this one.
            Path(f"{prefix}.md5").unlink(missing_ok=True)
        metadata = pair_metadata(
            pair,
            tokenizer,
            dtype=report.dtype,
            engine=report.engine,
            engine_version=report.engine_version,
            engine_verdict=report.engine_verdict,
            seq_length=spec.seq_length,
            sources=sources,
            options=_options(spec, key),
        )
        write_metadata(prefix, metadata)


def _options(spec: PreprocessSpec, key: str) -> dict[str, Any]:
    options: dict[str, Any] = {
        "json_key": key,
        "append_eod": spec.append_eod,
        "add_special_tokens": spec.tokenizer.add_special_tokens,
    }
    if spec.tokenizer.special_tokens_in_text != "encode":
        options["special_tokens_in_text"] = spec.tokenizer.special_tokens_in_text
    if spec.sentences is not None:
        options["sentences"] = "built-in" if spec.sentences.punkt is None else "punkt"
        options["language"] = spec.sentences.language
        options["keep_newlines"] = spec.sentences.keep_newlines
    return options


def _source(file: InputFile, hasher: InputHasher) -> SourceInfo:
    return SourceInfo(path=str(file.path), size=file.size, sha256=hasher.digest(file.path))
