"""A record as large as a file."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from runs import GOLDEN

from mindformers_megatron.format.reader import IndexedDataset

WORDS = b"a line without an end, "
GIGABYTE = 1_000_000_000


@pytest.mark.slow
def test_a_line_of_a_gigabyte_is_a_document_in_bounded_memory(tmp_path: Path) -> None:
    pytest.importorskip("gigatoken")
    path = tmp_path / "input.jsonl"
    with path.open("wb") as file:
        file.write(b'{"text": "')
        for _ in range(GIGABYTE // (len(WORDS) * 1000)):
            file.write(WORDS * 1000)
        file.write(b'"}\n{"text": "short"}\n')
    command = [sys.executable, "-m", "mindformers_megatron.cli", "preprocess", "--input", str(path), "--tokenizer",
               str(GOLDEN / "tokenizer"), "--output-prefix", str(tmp_path / "out"), "--no-md5"]  # fmt: skip
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    assert status == 0
    assert len(IndexedDataset(tmp_path / "out_text_document")) == 2
    # The line, its text, its ids as the engine gives them and as they are written.
    assert usage.ru_maxrss * 1024 < 10 * GIGABYTE
