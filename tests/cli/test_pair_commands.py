"""``mfm verify``, ``repair``, ``convert``, ``inspect``, ``head``, ``stats`` and ``diff`` as processes."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from pairs import GOLDEN

from mindformers_megatron.format.index import read_index

MFM = str(Path(sys.executable).parent / "mfm")
TOKENIZER = str(GOLDEN / "preprocess" / "tokenizer")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with raw text and the pair made of it there."""
    folder = tmp_path_factory.mktemp("pairs")
    shutil.copy(GOLDEN / "preprocess" / "input.jsonl", folder / "raw.jsonl")
    done = mfm(folder, "preprocess", "--input", "raw.jsonl", "--tokenizer", TOKENIZER, "--append-eod", "--workers", "1",
               "--engine", "hf", "--output-prefix", "good")  # fmt: skip
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture
def damaged(folder: Path) -> str:
    """A copy of the pair with one id out of range and another that is one, but not the right one."""
    for suffix in ("bin", "idx", "metadata.json", "docs.parquet", "md5"):
        shutil.copy(folder / f"good_text_document.{suffix}", folder / f"bad.{suffix}")
    tokens = np.memmap(folder / "bad.bin", np.uint16, "r+")
    tokens[2_500] = 65_000
    tokens[2_000] = tokens[2_000] % 3_000 + 5
    return "bad"


def mfm(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([MFM, *arguments], cwd=folder, capture_output=True, text=True, check=False)


def test_sound_pairs_are_told_from_damaged_ones(folder: Path, damaged: str) -> None:
    sound = mfm(folder, "verify", "good_text_document.idx", "--full", "--tokenizer", TOKENIZER, "--decode", "2")
    assert (sound.returncode, sound.stderr) == (0, "")
    lines = sound.stdout.splitlines()
    assert lines[0] == "good_text_document: sound (139 documents, 69,564 tokens, uint16)"
    assert len([line for line in lines if line.startswith("  document ")]) == 2
    both = mfm(folder, "verify", "good_text_document", damaged, "--full", "--json", "--workers", "1")
    good, bad = json.loads(both.stdout)
    assert (both.returncode, good["sound"], bad["sound"]) == (1, True, False)
    assert bad["findings"][0] == {
        "kind": "id",
        "message": "found id 65,000, expected 0 to 3,999",
        "document": 17,
        "last_document": 17,
        "sequence": 17,
        "token": 39,
        "byte": 5_000,
        "source": "raw.jsonl:18",
        "id": "doc-argparse.BooleanOptionalAction",
    }
    assert bad["damaged"] == [[17, 18]]


def test_pairs_are_named_by_folder_or_as_a_shell_names_them(folder: Path, tmp_path: Path) -> None:
    for name in ("one", "two"):
        for suffix in ("bin", "idx", "metadata.json", "docs.parquet", "md5"):
            shutil.copy(folder / f"good_text_document.{suffix}", tmp_path / f"{name}.{suffix}")
    for named in ([str(tmp_path)], sorted(map(str, tmp_path.glob("*")))):
        lines = mfm(folder, "verify", *named).stdout.splitlines()
        assert [line.partition(":")[0] for line in lines] == [str(tmp_path / "one"), str(tmp_path / "two")]
    assert "no pair among these" in mfm(folder, "stats", "raw.jsonl").stderr


def test_what_is_asked_for_wrongly_is_said_in_one_line(folder: Path) -> None:
    for arguments, said in (
        (["verify", "good_text_document", "--decode", "1"], "--decode and --sources need a tokenizer"),
        (["verify", "good_text_document", "--vocab-size", "0"], "--vocab-size is 0"),
        (["repair", "good_text_document", "-o", "x", "--retokenize"], "--retokenize needs what made the pair"),
        (["repair", "bad", "-o", "bad.bin", "--drop"], "never repaired in place"),
        (
            ["convert", "good_text_document", "-o", "x", "--to", "json", "--bin-dtype", "u2"],
            "--bin-dtype is for making",
        ),
        (["head", "good_text_document", "--from", "139"], "has documents 0 to 138"),
    ):
        if "bad" in arguments:
            shutil.copy(folder / "good_text_document.idx", folder / "bad.idx")
            (folder / "bad.bin").write_bytes((folder / "good_text_document.bin").read_bytes() + b"x")
        done = mfm(folder, *arguments)
        assert (done.returncode, done.stdout) == (2, ""), done.stderr
        assert said in done.stderr
        assert len(done.stderr.splitlines()) == 1
    assert mfm(folder, "verify", "none").stdout.startswith("none: not there\n  file: none: no such pair")


def test_a_damaged_pair_is_repaired_to_what_it_was(folder: Path, damaged: str) -> None:
    done = mfm(folder, "repair", damaged, "-o", "again", "--retokenize", "--tokenizer", TOKENIZER)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("again.bin/.idx: 139 documents, 69,564 tokens; 2 made anew; it has the checksums")
    assert mfm(folder, "diff", "again", "good_text_document").returncode == 0
    dropped = mfm(folder, "repair", damaged, "-o", "fewer", "--drop", "--json")
    assert json.loads(dropped.stdout)["dropped"] == 1
    assert "give --tokenizer" in dropped.stderr
    assert mfm(folder, "verify", "fewer", "--full").returncode == 0
    whole = mfm(folder, "repair", "good_text_document", "-o", "never", "--drop")
    assert (whole.returncode, whole.stdout) == (0, "good_text_document: sound; nothing to repair\n")
    assert not (folder / "never.bin").exists()


def test_raw_text_that_was_changed_makes_nothing_anew(folder: Path, damaged: str, tmp_path: Path) -> None:
    text = (folder / "raw.jsonl").read_bytes()
    (tmp_path / "raw.jsonl").write_bytes(text.replace(b"Return", b"Revert", 1))
    command = ("repair", damaged, "-o", "again", "--retokenize", "--tokenizer", TOKENIZER, "--sources")
    done = mfm(folder, *command, str(tmp_path))
    assert (done.returncode, done.stdout) == (1, "")
    assert "sha256 is not that of the file which the pair was made from" in done.stderr
    assert "no such file; say where the raw text is with --sources" in mfm(folder, *command, "nowhere").stderr
    other = mfm(folder, *command[:-2], str(GOLDEN / "preprocess" / "nothing"))
    assert other.returncode == 1


def test_every_document_is_compared_with_its_text(folder: Path, damaged: str) -> None:
    done = mfm(folder, "verify", damaged, "--full", "--tokenizer", TOKENIZER, "--sources")
    assert done.returncode == 1
    assert "source: document 15, sequence 15, token 2, byte 4,000, raw.jsonl:16" in done.stdout
    assert "damaged documents: 2 of 139" in done.stdout


def test_other_layouts_are_converted_and_described(folder: Path) -> None:
    there = mfm(folder, "convert", "good_text_document", "--to", "npz", "-o", "theirs")
    assert there.stdout.splitlines() == ["theirs.bin", "theirs.idx.npz"]
    told = mfm(folder, "inspect", "theirs")
    assert told.returncode == 1
    assert "NumPy .npz layout, 139 documents, 69,564 tokens of uint16; `mfm convert` makes a pair" in told.stderr
    back = mfm(folder, "convert", "theirs.idx.npz", "-o", "back", "--tokenizer", TOKENIZER, "--json")
    assert json.loads(back.stdout)["common_end"] == 0
    assert (folder / "back.idx").read_bytes() == (folder / "good_text_document.idx").read_bytes()
    verified = mfm(folder, "verify", "back", "--full", "--tokenizer", TOKENIZER)
    assert (verified.returncode, len(verified.stdout.splitlines())) == (0, 1)


def test_a_pair_is_shown_and_counted(folder: Path) -> None:
    shown = mfm(folder, "inspect", "good_text_document", "--documents", "2").stdout
    assert "uint16 (code 8), .bin 139,128 bytes" in shown
    assert shown.count("── document") == 3
    as_json = json.loads(mfm(folder, "inspect", "good_text_document", "--json").stdout)
    assert as_json["documents"] == read_index(folder / "good_text_document").num_documents
    head = mfm(folder, "head", "good_text_document", "-n", "2", "--tokenizer", TOKENIZER, "--json").stdout.splitlines()
    assert json.loads(head[0])["text"].startswith("Least-recently-used cache decorator")
    lines = mfm(folder, "stats", "good_text_document").stdout.splitlines()
    assert "  end in EOD             138  (100.00% of those with tokens; id 0)" in lines
    assert json.loads(mfm(folder, "stats", "good_text_document", "--json").stdout)[0]["sources"][0]["source"] == "code"


def test_differences_are_named(folder: Path, damaged: str) -> None:
    done = mfm(folder, "diff", "good_text_document", damaged)
    assert (done.returncode, done.stderr) == (1, "")
    assert done.stdout.splitlines()[2:] == [
        "tokenizer: the same",
        "documents: 137 in both, 2 only in A, 2 only in B",
        "order: those in both come in the same order",
        "places at which the documents differ: 2; the first is document 15, token 2: A has 3,564 (raw.jsonl:16), "
        "B has 569 (raw.jsonl:16)",
    ]


def test_what_is_no_pair_is_told_from_a_damaged_one(tmp_path: Path) -> None:
    done = mfm(tmp_path, "verify", "nowhere")
    assert (done.returncode, done.stdout.splitlines()[0]) == (1, "nowhere: not there")
    (tmp_path / "text.jsonl").write_text('{"text": "a"}\n')
    done = mfm(tmp_path, "convert", "text.jsonl", "-o", "out")
    assert done.returncode == 1
    assert "text becomes a pair by `mfm preprocess`" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["text.jsonl"]


def test_where_checksums_differ_verify_says_how_to_find_what_only_the_raw_text_shows(
    folder: Path, damaged: str
) -> None:
    advice = "give --tokenizer and --sources"
    assert advice in mfm(folder, "verify", "--full", damaged).stdout
    compared = mfm(folder, "verify", "--full", damaged, "--tokenizer", TOKENIZER, "--sources", ".").stdout
    assert "checksum" in compared and advice not in compared
