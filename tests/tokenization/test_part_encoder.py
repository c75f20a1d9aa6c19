"""One part, in this process."""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tokenizers import Tokenizer, models, pre_tokenizers

from mindformers_megatron.errors import DataError
from mindformers_megatron.tokenization.counts import OTHER_SOURCES, Advance, Counts
from mindformers_megatron.tokenization.part_encoder import EncodingJob, PartEncoder
from mindformers_megatron.tokenization.part_files import PartFiles, clear_folder, prepare_folder
from mindformers_megatron.tokenization.part_markers import EncodedPart
from mindformers_megatron.tokenization.parts import Part, Piece
from mindformers_megatron.tokenization.tokenizer import TokenizerSpec, open_tokenizer

WriteLines = Callable[..., Path]


@pytest.fixture
def job(tmp_path: Path) -> EncodingJob:
    """Numbers as words, each its own id; without a token for anything else."""
    tokenizer = Tokenizer(models.WordLevel({str(number): number for number in range(100)}, unk_token="?"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    folder = tmp_path / "parts"
    prepare_folder(folder)
    return EncodingJob(
        tokenizer=TokenizerSpec(path=tmp_path / "tokenizer.json"),
        json_keys=("text",),
        eod=99,
        sentences=None,
        dtype="<u2",
        rejects_allowed=0,
        folder=folder,
        batch_bytes=1,
    )


def encode(job: EncodingJob, path: Path, notices: list[Advance] | None = None) -> EncodedPart:
    def notify(notice: Any) -> None:
        if notices is not None:
            notices.append(notice)

    size = path.stat().st_size
    tokenizer = open_tokenizer(job.tokenizer)
    encoder = PartEncoder(job, notify, tokenizer=tokenizer, engine=tokenizer.engine)
    return encoder((Part(3, (Piece(path, 0, size, "numbers", disk_bytes=size),)), "fingerprint"))


@pytest.mark.parametrize("batch_bytes", [1, 40, 1000])
def test_a_part_is_the_same_however_it_is_batched(batch_bytes: int, job: EncodingJob, write_lines: WriteLines) -> None:
    path = write_lines({"text": "1 2 3"}, {"text": ""}, b"\n", {"text": ["4", "", "5 6"]}, {"text": "7", "source": "x"})
    notices: list[Advance] = []
    part = encode(replace(job, batch_bytes=batch_bytes), path, notices)
    files = PartFiles(job.folder, 3)
    assert np.concatenate(part.tokens[0]).dtype == np.dtype("<u2")
    assert np.concatenate(part.tokens[0]).tolist() == [1, 2, 3, 99, 4, 5, 6, 99, 7, 99]
    lengths, sequences = files.read_index(0)
    assert (lengths.tolist(), sequences.tolist()) == ([4, 1, 3, 2], [1, 0, 2, 1])
    assert files.read_docs()["line"].to_pylist() == [1, 2, 4, 5]
    assert (part.counts.lines, part.counts.blanks, part.counts.documents, part.counts.tokens) == (5, 1, 4, 10)
    assert dict(part.counts.tokens_of) == {"numbers": 8, "x": 2}
    assert sum(notice.bytes for notice in notices) == path.stat().st_size
    clear_folder(job.folder)
    assert not job.folder.exists()


def test_a_source_for_each_document_does_not_fill_the_memory() -> None:
    total = Counts()
    for first in range(0, 3000, 300):
        names = [f"https://{number}" for number in range(first, first + 300)]
        total.add(Counts(documents=300, tokens=600, documents_of=Counter(names), tokens_of=Counter(names + names)))
    assert len(total.documents_of) == 1001
    assert (total.documents_of["https://999"], total.documents_of[OTHER_SOURCES]) == (1, 2000)
    assert (total.documents, sum(total.documents_of.values())) == (3000, 3000)
    assert (total.tokens, sum(total.tokens_of.values())) == (6000, 6000)


def test_a_text_that_the_tokenizer_cannot_encode_is_named(job: EncodingJob, write_lines: WriteLines) -> None:
    path = write_lines({"text": "1"}, {"text": "two"})
    with pytest.raises(DataError, match=r"input\.jsonl, records at bytes 14 to 14: the tokenizer failed: .*UNK"):
        encode(job, path)


def test_a_sequence_longer_than_an_index_can_say_is_refused(job: EncodingJob, write_lines: WriteLines) -> None:
    path = write_lines({"text": "1"}, {"text": ""}, {"text": ["2", "3 4 5"]})
    job = replace(job, batch_bytes=1000)
    encode(replace(job, max_sequence_tokens=4), path)
    clear_folder(job.folder)
    prepare_folder(job.folder)
    with pytest.raises(DataError, match=r"byte 27: a document of 4 tokens; an index holds at most 3, so split it"):
        encode(replace(job, max_sequence_tokens=3), path)
