"""What the README and the guides tell people to type does what they say, in the order in which it is read."""

import os
import re
import subprocess
import sys
from itertools import islice
from pathlib import Path

import pytest

from mindformers_megatron.demo.collect import collect, write_jsonl
from mindformers_megatron.demo.tokenizer import train_tokenizer

from .guides import ENGLISH, ROOT, blocks

DOCS = ROOT / "docs"
TEXTS = 300


@pytest.fixture
def workplace(tmp_path: Path) -> Path:
    """A folder like a clone of this project after ``make demo``, with less text."""
    for name in ("configs", "tools"):
        (tmp_path / name).symlink_to(ROOT / name)
    (tmp_path / "demo" / "text").mkdir(parents=True)
    learned = []
    for name in ("prose", "code", "manuals"):
        texts = list(islice(collect(name), TEXTS if name == "prose" else TEXTS // 20))
        write_jsonl(texts, name, tmp_path / "demo" / "text" / f"{name}.jsonl")
        learned += [text.text for text in texts]
    train_tokenizer(learned, 4096, tmp_path / "demo" / "tokenizer")
    return tmp_path


def follow(guide: Path, folder: Path) -> str:
    """Does what a guide says; returns what its commands printed."""
    printed = []
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    for block in blocks(guide):
        if block.file is not None:
            (folder / block.file).write_text(block.text, encoding="utf-8")
        if block.kind != "bash" or block.reason is not None:
            continue
        command = ["bash", "-euo", "pipefail", "-c", block.text]
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, f"{guide.name}:\n{block.text}\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
        printed.append(done.stdout + done.stderr)
    return "".join(printed)


def test_preparing_corpora(workplace: Path) -> None:
    printed = follow(DOCS / "prepare.md", workplace)
    assert (workplace / "data" / "prose_text_document.idx").is_file()
    assert "bad lines skipped" in printed


def test_training_and_comparing_tokenizers(workplace: Path) -> None:
    pytest.importorskip("sentencepiece")
    printed = follow(DOCS / "tokenizer.md", workplace)
    assert "tokenizers/spm-lossless @ 1000: 2,048,000 parameters of embedding" in printed
    assert (workplace / "data" / "own_text_document.idx").is_file()


def test_looking_for_the_cause_of_a_symptom(workplace: Path) -> None:
    follow(DOCS / "prepare.md", workplace)
    for block in blocks(DOCS / "train.md"):
        if block.file is not None:
            (workplace / block.file).write_text(block.text, encoding="utf-8")
    printed = follow(DOCS / "troubleshoot.md", workplace)
    assert "sound" in printed and "rank 1" in printed


def test_tracing_a_run_and_reporting_on_it(workplace: Path) -> None:
    follow(DOCS / "prepare.md", workplace)
    traced = follow(DOCS / "trace.md", workplace)
    for block in blocks(DOCS / "trace.md"):
        # What depends on the Python whose library is the text here is its words and their numbers.
        if block.kind == "text":
            assert re.sub(r"\d+", "", block.text.split(":")[0]) in re.sub(r"\d+", "", traced)
    follow(DOCS / "report.md", workplace)
    assert 'id="samples"' in (workplace / "report.html").read_text(encoding="utf-8")


def test_damage_that_is_found_and_repaired(workplace: Path) -> None:
    follow(DOCS / "prepare.md", workplace)
    printed = follow(DOCS / "verify.md", workplace)
    assert "damaged documents: 1 of 300" in printed
    assert "1 made anew; it has the checksums that the metadata names" in printed
    assert printed.count("the files are the same byte for byte") == 2
    assert "NumPy .npz layout, 300 documents" in printed


def test_raw_text_to_corpora(workplace: Path) -> None:
    printed = follow(DOCS / "corpus.md", workplace)
    assert (workplace / "corpus" / "corpora" / "code_validation_text_document.idx").is_file()
    assert "stage near_dedup is finished" in printed
    assert "near_dedup: in_index: " in printed
    assert "--- Dataset Statistics: my_pretraining_dataset ---" in printed


@pytest.mark.train
def test_the_whole_way_in_the_readme(workplace: Path) -> None:
    printed = follow(ROOT / "README.md", workplace)
    assert "data goes on at sample 80, step 20" in printed


@pytest.mark.train
def test_preparing_training_and_resuming(workplace: Path) -> None:
    follow(DOCS / "prepare.md", workplace)
    trained = follow(DOCS / "train.md", workplace)
    assert "data plan" in trained
    resumed = follow(DOCS / "resume.md", workplace)
    assert "data goes on at sample 80, step 20" in resumed


def test_commands_that_are_not_run_here_say_why() -> None:
    allowed = {
        "this test is part of it",
        "needs two ranks",
        "needs the network",
        "needs a cluster",
        "needs a Redis server",
        "measures for minutes",
        "goes on until it is ended",
        "trains once more",
    }
    reasons = {block.reason for guide in ENGLISH for block in blocks(guide) if block.reason is not None}
    assert reasons <= allowed
