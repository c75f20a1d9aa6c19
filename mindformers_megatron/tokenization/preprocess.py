"""From JSONL to pairs: the run as a whole."""

import os
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from mindformers_megatron._version import __version__
from mindformers_megatron.errors import ConfigError, DataError
from mindformers_megatron.execution.processes import map_ordered
from mindformers_megatron.format.atomic import write_atomically
from mindformers_megatron.format.dtypes import dtype_for_vocab
from mindformers_megatron.format.metadata import Metadata, SourceInfo, TokenizerInfo, write_metadata
from mindformers_megatron.format.paths import bin_path, idx_path
from mindformers_megatron.format.writer import WrittenPair
from mindformers_megatron.tokenization.inputs import InputHasher, check_unchanged, find_inputs
from mindformers_megatron.tokenization.join import Joiner
from mindformers_megatron.tokenization.part_encoder import Advance, Counts, EncodingJob, PartEncoder
from mindformers_megatron.tokenization.part_files import PartFiles, clear_folder, remove_folder
from mindformers_megatron.tokenization.parts import cut_parts, part_bytes_for
from mindformers_megatron.tokenization.tokenizer import Tokenizer, TokenizerSpec, open_tokenizer

# Enough for a thread of the engine, little enough for its memory: 100 bytes and more for each byte of text.
_BATCH_BYTES = 1 << 18


@dataclass(frozen=True, slots=True, kw_only=True)
class PreprocessSpec:
    """What is asked of a run.

    Attributes:
        inputs: files of JSONL, or glob patterns.
        output_prefix: each key makes the pair ``<output_prefix>_<key>_document``.
        tokenizer: what encodes.
        json_keys: the keys with the texts.
        append_eod: append the end-of-document token to each document that has tokens.
        rejects_allowed: lines that may be no records, 0: the first ends the run; None: any number. They are listed in
            ``<output_prefix>.rejected.jsonl``.
        seq_length: noted in the metadata; the files are the same for every sequence length.
        workers: processes; None: one per core. The output does not depend on it.
        part_bytes: bytes of input a worker takes at a time; None: by the size of the input. The output does not depend
            on it.
    """

    inputs: Sequence[str | os.PathLike[str]]
    output_prefix: str
    tokenizer: TokenizerSpec
    json_keys: tuple[str, ...] = ("text",)
    append_eod: bool = False
    rejects_allowed: int | None = 0
    seq_length: int | None = None
    workers: int | None = None
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
        for name in ("seq_length", "workers", "part_bytes"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ConfigError(f"{name} is {value}; give 1 or more")

    @property
    def prefixes(self) -> list[str]:
        """The pairs, in the order of the keys."""
        return [f"{self.output_prefix}_{key}_document" for key in self.json_keys]

    @property
    def rejects_path(self) -> Path:
        """Where lines that are no records are listed."""
        return Path(f"{self.output_prefix}.rejected.jsonl")

    @property
    def parts_folder(self) -> Path:
        """Where the run works; removed in the end."""
        return Path(f"{self.output_prefix}.parts")


@dataclass(frozen=True, slots=True)
class PreprocessReport:
    """What a run did.

    Attributes:
        pairs: prefix of each pair and what was written there.
        dtype: type of the tokens.
        eod_id: the token at the end of each document, None if none was appended.
        input_files: how many.
        input_bytes: of all input files.
        counts: what was found in them.
        rejects_path: where the lines that are no records are listed, None if there were none.
        workers: processes that worked.
        seconds: from start to end.
    """

    pairs: dict[str, WrittenPair]
    dtype: str
    eod_id: int | None
    input_files: int
    input_bytes: int
    counts: Counts
    rejects_path: str | None
    workers: int
    seconds: float

    def to_json(self) -> dict[str, Any]:
        """JSON values, rates included."""
        counts = self.counts
        return {
            "pairs": {prefix: asdict(pair) for prefix, pair in self.pairs.items()},
            "dtype": self.dtype,
            "eod_id": self.eod_id,
            "input_files": self.input_files,
            "input_bytes": self.input_bytes,
            "lines": counts.lines,
            "blanks": counts.blanks,
            "rejects": counts.rejects,
            "rejects_path": self.rejects_path,
            "documents": counts.documents,
            "tokens": counts.tokens,
            "sources": {
                source: {"documents": documents, "tokens": counts.tokens_of[source]}
                for source, documents in sorted(counts.documents_of.items())
            },
            "workers": self.workers,
            "seconds": round(self.seconds, 3),
            "mb_per_second": round(self.input_bytes / 1e6 / self.seconds, 3),
            "tokens_per_second": round(counts.tokens / self.seconds),
        }


def preprocess(spec: PreprocessSpec, on_advance: Callable[[int, Advance], None] | None = None) -> PreprocessReport:
    """Tokenizes JSONL into pairs that are byte-identical to those of Megatron's ``tools/preprocess_data.py``.

    Memory is bounded by the workers and the longest line. Whatever goes wrong, a pair is there whole or not at all, and
    one of that name that was there before stays as it was.

    Args:
        spec: what is asked.
        on_advance: told, while workers work, the bytes of all input and what has been done since the last call.

    Raises:
        ConfigError: it cannot be done as asked.
        DataError: an input or the tokenizer is damaged or missing.
        OSError: the disk is full or fails, or a worker died.
    """
    begun = time.monotonic()
    files = find_inputs(spec.inputs)
    input_bytes = sum(file.size for file in files)
    tokenizer = open_tokenizer(spec.tokenizer)
    eod = tokenizer.require_eod() if spec.append_eod else None
    dtype = _token_type(tokenizer)
    cores = len(os.sched_getaffinity(0))
    workers = spec.workers or cores
    threads = max(cores // workers, 1)
    job = EncodingJob(
        tokenizer=spec.tokenizer,
        json_keys=spec.json_keys,
        eod=eod,
        dtype=dtype.str,
        rejects_allowed=spec.rejects_allowed,
        folder=spec.parts_folder,
        batch_bytes=_BATCH_BYTES * threads,
    )
    hasher = InputHasher()
    Path(spec.output_prefix).parent.mkdir(parents=True, exist_ok=True)
    with Joiner(spec.prefixes, dtype, rejects_path=spec.rejects_path, rejects_allowed=spec.rejects_allowed) as joiner:
        # From here on no other run works on these outputs; what lies in the folder was left by a killed one.
        clear_folder(spec.parts_folder)
        try:
            encoded_parts = map_ordered(
                partial(PartEncoder, job),
                cut_parts(files, spec.part_bytes or part_bytes_for(files)),
                workers=workers,
                environment=_thread_settings(threads),
                on_notice=partial(on_advance, input_bytes) if on_advance else None,
            )
            # Closed before the folder goes: workers write there.
            with closing(encoded_parts):
                for encoded in encoded_parts:
                    joiner.add(encoded, PartFiles(spec.parts_folder, encoded.part.number))
                    hasher.add(encoded.part.path, encoded.part.start, encoded.part.stop)
            check_unchanged(files)
            pairs = dict(zip(spec.prefixes, joiner.publish(), strict=True))
        finally:
            remove_folder(spec.parts_folder)
    sources = tuple(SourceInfo(path=str(file.path), size=file.size, sha256=hasher.digest(file.path)) for file in files)
    for key, (prefix, pair) in zip(spec.json_keys, pairs.items(), strict=True):
        _describe(spec, key, prefix, pair, tokenizer, dtype, sources)
    return PreprocessReport(
        pairs=pairs,
        dtype=dtype.name,
        eod_id=eod,
        input_files=len(files),
        input_bytes=input_bytes,
        counts=joiner.counts,
        rejects_path=str(spec.rejects_path) if joiner.counts.rejects else None,
        workers=workers,
        seconds=time.monotonic() - begun,
    )


def _token_type(tokenizer: Tokenizer) -> np.dtype[Any]:
    dtype: np.dtype[Any] = dtype_for_vocab(tokenizer.vocab_size)
    limit = int(np.iinfo(dtype).max)
    if tokenizer.largest_id > limit:
        # Its ids have gaps. Megatron goes by their number, and would store such an id as another one.
        raise DataError(
            f"{tokenizer.name}: has {tokenizer.vocab_size:,} ids up to {tokenizer.largest_id:,}; by Megatron's rule "
            f"they are stored as {dtype.name}, which ends at {limit:,}; number them without gaps"
        )
    return dtype


def _thread_settings(threads: int) -> dict[str, str]:
    return {"TOKENIZERS_PARALLELISM": "true" if threads > 1 else "false", "RAYON_NUM_THREADS": str(threads)}


def _describe(
    spec: PreprocessSpec,
    key: str,
    prefix: str,
    pair: WrittenPair,
    tokenizer: Tokenizer,
    dtype: np.dtype[Any],
    sources: tuple[SourceInfo, ...],
) -> None:
    """Writes what goes with a pair: its checksums, in the format of ``md5sum``, and its metadata."""
    sums = ((pair.bin_md5, bin_path(prefix)), (pair.idx_md5, idx_path(prefix)))
    lines = "".join(f"{md5}  {path.name}\n" for md5, path in sums)
    write_atomically(Path(f"{prefix}.md5"), lines.encode(errors="surrogateescape"))
    engine = tokenizer.engine
    metadata = Metadata(
        tokenizer=TokenizerInfo(
            name=tokenizer.name,
            kind=tokenizer.kind,
            files=tokenizer.files,
            library=tokenizer.library,
            library_version=tokenizer.library_version,
            engine=engine.name,
            engine_version=engine.version,
        ),
        vocab_size=tokenizer.vocab_size,
        eod_id=tokenizer.eod_id,
        dtype=dtype.name,
        documents=pair.num_documents,
        sequences=pair.num_sequences,
        tokens=pair.num_tokens,
        seq_length=spec.seq_length,
        sources=sources,
        bin_sha256=str(pair.bin_sha256),
        idx_sha256=str(pair.idx_sha256),
        options={
            "json_key": key,
            "append_eod": spec.append_eod,
            "add_special_tokens": spec.tokenizer.add_special_tokens,
        },
        created=datetime.now(timezone.utc).isoformat(timespec="seconds"),
        program_version=__version__,
    )
    write_metadata(prefix, metadata)
