"""How many workers tokenize a corpus fastest, found by trying."""

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import orjson

from mindformers_megatron.errors import ConfigError, DataError
from mindformers_megatron.tokenization.batches import Batch, read_batches
from mindformers_megatron.tokenization.inputs import STDIN, find_inputs
from mindformers_megatron.tokenization.parts import cut_parts, part_bytes_for
from mindformers_megatron.tokenization.preprocess import PreprocessSpec, preprocess

_BLOCK_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Trial:
    """A run on a sample.

    Attributes:
        workers: how many worked at once.
        documents: of the sample.
        bytes: of the sample.
        seconds: that they took, without opening the tokenizer.
    """

    workers: int
    documents: int
    bytes: int
    seconds: float


def try_workers(spec: PreprocessSpec, counts: Sequence[int], documents: int) -> Iterator[Trial]:
    """Tokenizes the first documents of a corpus with one number of workers after the other.

    Nothing stays of it: sample and pairs are in a temporary folder beside the output.

    Args:
        spec: the run that is to be prepared.
        counts: the numbers of workers.
        documents: how many documents to try them on.

    Raises:
        ConfigError: a number is below 1, or the input is standard input, which can be read only once.
        DataError: the input has no records, or is damaged.
    """
    for name, value in (("--max-documents", documents), *(("--workers-to-check", count) for count in counts)):
        if value < 1:
            raise ConfigError(f"{name} {value}: give 1 or more")
    if STDIN in map(Path, spec.inputs):
        raise ConfigError("--find-optimal-num-workers: standard input can be read only once; give a file")
    prefix = Path(spec.output_prefix)
    prefix.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f"{prefix.name}.trial-", dir=prefix.parent) as name:
        sample = Path(name) / "sample.jsonl"
        written = _write_sample(sample, spec, documents)
        if not written:
            raise DataError(f"{', '.join(map(str, spec.inputs))}: has no records to try workers on")
        for count in counts:
            on_sample = replace(spec, inputs=[sample], output_prefix=str(Path(name) / "out"), workers=count)
            report = preprocess(on_sample)
            yield Trial(count, written, report.input_bytes, report.seconds)


def _write_sample(path: Path, spec: PreprocessSpec, documents: int) -> int:
    files = find_inputs(spec.inputs)
    written = 0
    with path.open("wb") as file:
        for part in cut_parts(files, spec.part_bytes or part_bytes_for(files)):
            for piece in part.pieces:
                for batch in read_batches(piece, spec.json_keys, _BLOCK_BYTES):
                    for record in _records(batch, spec.json_keys):
                        file.write(orjson.dumps(record, option=orjson.OPT_APPEND_NEWLINE))
                        written += 1
                        if written == documents:
                            return written
    return written


def _records(batch: Batch, keys: Sequence[str]) -> Iterator[dict[str, list[str]]]:
    texts = [iter(of_key.flat) for of_key in batch.texts]
    for place in range(len(batch)):
        yield {
            key: [next(flat) for _ in range(of_key.counts[place])]
            for key, of_key, flat in zip(keys, batch.texts, texts, strict=True)
        }
