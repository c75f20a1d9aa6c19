"""From records to pairs: the run as a whole."""

import logging
import os
import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, closing
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, cast

import numpy as np
import orjson

from mindformers_megatron.errors import ConfigError, DataError
from mindformers_megatron.format.atomic import write_atomically
from mindformers_megatron.format.dtypes import dtype_for_vocab
from mindformers_megatron.format.writer import WrittenPair
from mindformers_megatron.tokenization.batches import read_batches
from mindformers_megatron.tokenization.counts import Advance
from mindformers_megatron.tokenization.description import describe_pairs
from mindformers_megatron.tokenization.encoders import Encode, Encoded, Task, Team, forks, make_team, threads
from mindformers_megatron.tokenization.engines.guard import EngineMismatchError, GuardedEngine
from mindformers_megatron.tokenization.engines.selection import Choice, EngineName, choose_engine
from mindformers_megatron.tokenization.inputs import STDIN, InputFile, InputHasher, check_unchanged, find_inputs
from mindformers_megatron.tokenization.join import Joiner
from mindformers_megatron.tokenization.pair_sums import MOST_WAITING
from mindformers_megatron.tokenization.part_encoder import EncodingJob
from mindformers_megatron.tokenization.part_files import clear_folder, finished_parts, prepare_folder
from mindformers_megatron.tokenization.part_markers import FinishedParts, part_fingerprint
from mindformers_megatron.tokenization.parts import Part, cut_parts, part_bytes_for
from mindformers_megatron.tokenization.preprocess_report import PreprocessReport
from mindformers_megatron.tokenization.preprocess_spec import PreprocessSpec
from mindformers_megatron.tokenization.tokenizer import Tokenizer, open_tokenizer
from mindformers_megatron.tokenization.tokenizer_process import EngineElsewhere, opened_for

__all__ = ["PreprocessReport", "PreprocessSpec", "preprocess"]

# Hugging Face's library takes 100 bytes and more of memory for each byte of text; the fast engine forty times less.
_BATCH_BYTES = 1 << 18
_FAST_BATCH_BYTES = 1 << 21
_SAMPLE_BYTES = 1 << 18

OnAdvance = Callable[[int, Advance], None]

_log = logging.getLogger(__name__)


def preprocess(spec: PreprocessSpec, on_advance: OnAdvance | None = None) -> PreprocessReport:
    """Tokenizes records into pairs that are byte-identical to those of Megatron's ``tools/preprocess_data.py``.

    Memory is bounded by the workers and the longest record. Whatever goes wrong, a pair is there whole or not at all,
    and one of that name that was there before stays as it was. What a run has finished when it ends early stays in
    ``<output_prefix>.parts``, and the same call goes on from there.

    Args:
        spec: what is asked.
        on_advance: told, while workers work, the bytes of all input and what has been done since the last call.

    Raises:
        ConfigError: it cannot be done as asked.
        DataError: an input or the tokenizer is damaged or missing.
        OSError: the disk is full or fails, or a worker died.
    """
    files = find_inputs(spec.inputs)
    hasher = InputHasher(files)
    try:
        return _preprocess(spec, files, hasher, on_advance)
    finally:
        hasher.stop()


def _preprocess(
    spec: PreprocessSpec, files: Sequence[InputFile], hasher: InputHasher, on_advance: OnAdvance | None
) -> PreprocessReport:
    team = make_team(spec, files)
    with opened_for(spec.engine, spec.tokenizer, workers=team.workers if team.may_be_forks else 0) as tokenizer:
        try:
            return _Run(spec, tokenizer, files, hasher, team).carry_out(on_advance)
        except EngineMismatchError as error:
            if spec.on_mismatch != "hf":
                raise
            if STDIN in map(Path, spec.inputs):
                raise ConfigError(f"{error}; standard input cannot be read again for it") from None
            reference = cast(EngineName, tokenizer.engine.name)
            _log.warning("%s; encoding all by %s", error, reference)
            # By now there are threads.
            team = replace(team, may_be_forks=False)
            run = _Run(replace(spec, engine=reference), tokenizer, files, hasher, team)
            run.refusal = f"{error}"
            return run.carry_out(on_advance)


@dataclass(frozen=True, slots=True)
class _Plan:
    """What has been settled before the work begins."""

    job: EncodingJob
    choice: Choice
    parts: Iterator[Part]


class _Run:
    """One attempt at a run."""

    def __init__(
        self,
        spec: PreprocessSpec,
        tokenizer: Tokenizer,
        files: Sequence[InputFile],
        hasher: InputHasher,
        team: Team,
    ) -> None:
        self._begun = time.monotonic()
        self._spec = spec
        self._tokenizer = tokenizer
        self._files = files
        self._input_bytes = sum(file.size for file in files)
        self._hasher = hasher
        self._team = team
        self.refusal = ""

    def carry_out(self, on_advance: OnAdvance | None) -> PreprocessReport:
        spec = self._spec
        plan = self._plan()
        dtype = np.dtype(plan.job.dtype)
        Path(spec.output_prefix).parent.mkdir(parents=True, exist_ok=True)
        reused = 0
        with ExitStack() as stack:
            # Before any thread is started, and before outputs are locked: what is locked for a fork stays locked.
            encode = stack.enter_context(self._encoders(plan))
            self._hasher.start()
            joiner = stack.enter_context(
                Joiner(
                    spec.prefixes,
                    dtype,
                    spec.parts_folder,
                    rejects_path=spec.rejects_path,
                    rejects_allowed=spec.rejects_allowed,
                    md5=spec.md5,
                )
            )
            # From here on no other run works on these outputs.
            prepare_folder(spec.parts_folder)
            stack.callback(self._tidy)
            notice = partial(on_advance, self._input_bytes) if on_advance else None
            with closing(self._encoded(plan, encode, notice)) as encoded_parts:
                for encoded in encoded_parts:
                    joiner.add(encoded)
                    reused += encoded.reused
                    self._hasher.reached(sum(piece.disk_bytes for piece in encoded.part.pieces))
            pairs = dict(zip(spec.prefixes, self._publish(joiner), strict=True))
            counts = joiner.counts
            report = PreprocessReport(
                pairs=pairs,
                dtype=dtype.name,
                eod_id=plan.job.eod,
                input_files=len(self._files),
                input_bytes=self._input_bytes,
                counts=counts,
                rejects_path=str(spec.rejects_path) if counts.rejects else None,
                engine=plan.choice.engine.name,
                engine_version=plan.choice.engine.version,
                engine_verdict=self.refusal or _verdict(plan.choice, counts.audited, counts.referred),
                tokenizer=self._tokenizer.name,
                tokenizer_kind=self._tokenizer.kind,
                vocab_size=self._tokenizer.vocab_size,
                seq_length=spec.seq_length,
                reused_parts=reused,
                workers=self._team.workers,
                seconds=time.monotonic() - self._begun,
            )
            describe_pairs(spec, report, self._tokenizer, self._files, self._hasher)
            write_atomically(
                Path(f"{spec.output_prefix}.data_stats.json"),
                orjson.dumps(report.to_json(), option=orjson.OPT_INDENT_2),
            )
            page = report.to_text(Path(spec.output_prefix).name)
            write_atomically(Path(f"{spec.output_prefix}.stats_report.txt"), page.encode(errors="backslashreplace"))
            clear_folder(spec.parts_folder)
        return report

    def _publish(self, joiner: Joiner) -> list[WrittenPair]:
        try:
            check_unchanged(self._files)
            return joiner.publish()
        except DataError:
            # All parts are finished, and what they add up to is no good.
            clear_folder(self._spec.parts_folder)
            raise

    def _plan(self) -> _Plan:
        spec, tokenizer = self._spec, self._tokenizer
        eod = tokenizer.require_eod() if spec.append_eod else None
        dtype = _token_type(tokenizer)
        parts = cut_parts(self._files, spec.part_bytes or part_bytes_for(self._files), on_stdin=self._hasher.add)
        sample: list[str] = []
        if spec.engine != tokenizer.engine.name and (first := next(parts, None)) is not None:
            sample = _first_texts(first, spec.json_keys)
            parts = chain([first], parts)
        choice = choose_engine(
            tokenizer, spec.engine, sample, on_mismatch=spec.on_mismatch, by_threads=not self._team.may_be_forks
        )
        cores = len(os.sched_getaffinity(0))
        is_fast = choice.engine.name == "gigatoken"
        job = EncodingJob(
            tokenizer=spec.tokenizer,
            json_keys=spec.json_keys,
            eod=eod,
            sentences=spec.sentences,
            dtype=dtype.str,
            rejects_allowed=spec.rejects_allowed,
            folder=spec.parts_folder,
            batch_bytes=_FAST_BATCH_BYTES if is_fast else _BATCH_BYTES * max(cores // self._team.workers, 1),
        )
        return _Plan(job, choice, parts)

    def _encoders(self, plan: _Plan) -> AbstractContextManager[Encode]:
        tokenizer, engine = self._tokenizer, plan.choice.engine
        if isinstance(engine, EngineElsewhere):
            # It compares, one text in a thousand; to encode all, workers would wait for each other.
            tokenizer = open_tokenizer(self._spec.tokenizer)
            engine = tokenizer.engine
        is_asked_for = self._spec.in_processes is not None
        # Other engines leave Python for nearly all of their time, and are at home among threads.
        is_pythons = isinstance(engine, GuardedEngine) or self._spec.sentences is not None
        workers = self._team.workers
        if self._team.may_be_forks and (is_asked_for or is_pythons):
            return forks(plan.job, tokenizer, engine, workers=workers, held=MOST_WAITING + 1)
        return threads(plan.job, tokenizer, engine, workers=workers)

    def _encoded(self, plan: _Plan, encode: Encode, on_notice: Callable[[Any], None] | None) -> Encoded:
        """All parts in order; first those that an earlier run has finished."""
        finished = FinishedParts(self._spec.parts_folder, len(self._spec.json_keys), np.dtype(plan.job.dtype))
        tasks = self._tasks(plan)
        for task in tasks:
            encoded = finished.take(*task)
            if encoded is None:
                with closing(encode(chain([task], tasks), on_notice)) as others:
                    yield from others
                return
            if on_notice:
                disk_bytes = sum(piece.disk_bytes for piece in encoded.part.pieces)
                on_notice(Advance(disk_bytes, encoded.counts.documents, encoded.counts.tokens))
            yield encoded

    def _tasks(self, plan: _Plan) -> Iterator[Task]:
        tokenizer, engine = self._tokenizer, plan.choice.engine
        of_job = repr(
            (
                sorted(tokenizer.files.items()),
                (tokenizer.kind, tokenizer.library_version, engine.name, engine.version),
                replace(plan.job.tokenizer, path=None, vocab_file=None, merge_file=None),
                (plan.job.json_keys, plan.job.eod, plan.job.sentences, plan.job.dtype),
            )
        )
        identities = {file.path: _identity(file) for file in self._files}
        for part in plan.parts:
            yield part, part_fingerprint(of_job, part, identities)

    def _tidy(self) -> None:
        if not finished_parts(self._spec.parts_folder):
            clear_folder(self._spec.parts_folder)


def _first_texts(part: Part, keys: Sequence[str]) -> list[str]:
    batch = next(read_batches(part.pieces[0], keys, _SAMPLE_BYTES), None)
    return [] if batch is None else [text for texts in batch.texts for text in texts.flat]


def _verdict(choice: Choice, audited: int, referred: int) -> str:
    if not isinstance(choice.engine, GuardedEngine):
        return choice.verdict
    return (
        f"{choice.verdict}; {audited:,} texts compared while running, all equal; {referred:,} with unassigned code "
        "points left to that library"
    )


def _identity(file: InputFile) -> object:
    if file.path == STDIN:
        # What came from there cannot be known to be the same again.
        return secrets.token_hex(16)
    return file.size, file.modified, file.changed, file.inode


def _token_type(tokenizer: Tokenizer) -> np.dtype[Any]:
    dtype: np.dtype[Any] = dtype_for_vocab(tokenizer.vocab_size)
    limit = int(np.iinfo(dtype).max)
    # What is stored as int32 is stored as engines give it.
    if dtype != np.int32 and tokenizer.largest_id > limit:
        # Its ids have gaps. Megatron goes by their number, and would store such an id as another one.
        raise DataError(
            f"{tokenizer.name}: has {tokenizer.vocab_size:,} ids up to {tokenizer.largest_id:,}; by Megatron's rule "
            f"they are stored as {dtype.name}, which ends at {limit:,}; number them without gaps"
        )
    return dtype
