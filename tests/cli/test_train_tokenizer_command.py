"""``mfm train-tokenizer`` as a process."""

import contextlib
import gzip
import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from mindformers_megatron.demo.collect import collect, write_jsonl

MFM = [str(Path(sys.executable).parent / "mfm"), "train-tokenizer"]


def run(*options: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*MFM, *map(str, options)], cwd=cwd, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with real text as JSONL, compressed JSONL and plain text."""
    folder = tmp_path_factory.mktemp("corpus")
    texts = [text for _, text in zip(range(400), collect("prose"), strict=False)]
    write_jsonl(texts[:300], "prose", folder / "prose.jsonl")
    (folder / "more.jsonl.gz").write_bytes(
        gzip.compress((folder / "prose.jsonl").read_bytes()[:20_000].rpartition(b"\n")[0])
    )
    (folder / "corpus.txt").write_text("\n\n".join(text.text for text in texts), encoding="utf-8")
    return folder


def test_byte_level_bpe_from_files_of_several_kinds(tmp_path: Path, corpus: Path) -> None:
    inputs = (corpus / "*.jsonl*", corpus / "corpus.txt")
    done = run("--input", *inputs, "--vocab-size", "1000", "--output", "new/tokenizer", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("new/tokenizer: 1,000 ids (eod '<|endoftext|>' = 0, eos '<|endoftext|>' = 0)\n")
    record = json.loads((tmp_path / "new" / "tokenizer" / "training.json").read_text())
    assert [Path(source["path"]).name for source in record["inputs"]] == ["more.jsonl.gz", "prose.jsonl", "corpus.txt"]
    assert all(len(source["sha256"]) == 64 for source in record["inputs"])
    assert record["seen"]["texts"] > 300
    again = run("--input", *inputs, "--vocab-size", "1000", "--output", "again", "--json", cwd=tmp_path)
    assert json.loads(again.stdout)["sha256"] == record["sha256"]


def test_spm_trains_own_command_line(tmp_path: Path, corpus: Path) -> None:
    pytest.importorskip("sentencepiece")
    command = (
        f"--input={corpus}/corpus.txt --model_prefix=my_tokenizer --vocab_size=1502 --character_coverage=0.9995 "
        "--model_type=bpe --pad_id=0 --unk_id=1 --bos_id=2 --eos_id=3 --user_defined_symbols=<sep>,<cls>"
    )
    done = run(*command.split(), cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(
        "my_tokenizer.model, my_tokenizer.vocab: 1,502 ids "
        "(pad '<pad>' = 0, unk '<unk>' = 1, bos '<s>' = 2, eos '</s>' = 3, eod '</s>' = 3)\n"
    )
    vocabulary = (tmp_path / "my_tokenizer.vocab").read_text(encoding="utf-8").splitlines()
    assert [line.split("\t")[0] for line in vocabulary[:6]] == ["<pad>", "<unk>", "<s>", "</s>", "<sep>", "<cls>"]
    assert json.loads((tmp_path / "my_tokenizer.training.json").read_text())["reading"]["document"] == "line"


def test_the_same_ids_may_be_asked_of_byte_level_bpe(tmp_path: Path, corpus: Path) -> None:
    ids = ["--pad_id=0", "--unk_id=1", "--bos_id=2", "--eos_id=3", "--user_defined_symbols=<sep>,<cls>"]
    done = run("--input", corpus / "corpus.txt", "--vocab-size", "600", *ids, "--output", "out", "--json", cwd=tmp_path)
    record = json.loads(done.stdout)
    assert {role: token["id"] for role, token in record["special_tokens"].items()} == {
        "pad": 0, "unk": 1, "bos": 2, "eos": 3, "eod": 3,
    }  # fmt: skip
    assert record["user_defined_symbols"] == {"<sep>": 4, "<cls>": 5}


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        ("--vocab-size 400 --output x --input bad.jsonl", 1, "bad.jsonl, line 2 (byte 18): it is not valid JSON"),
        ("--vocab-size 400 --output x --input bad.jsonl --model-type bpe", 1, "bad.jsonl, line 2 (byte 18): it is not"),
        ("--vocab-size 400 --output x --input nowhere.txt", 1, "nowhere.txt: cannot be read: No such file"),
        ("--vocab-size 400 --output x --input empty.txt", 1, "there is no text to train on"),
        ("--vocab-size 400 --output x --input data.bin", 2, "data.bin: its format cannot be told from its name"),
        ("--vocab-size 400 --output . --input empty.txt", 2, ".: is there already"),
        ("--vocab-size 400 --input empty.txt", 2, "no place to write to; pass --output FOLDER"),
        ("--vocab-size 400 --output x --input bad.jsonl --on-error skip", 2, "the texts hold 257 ids"),
        ("--vocab-size 400 --output x --input empty.txt --byte-fallback", 2, "--byte-fallback has no meaning for "),
        ("--vocab-size 400 --output x --input empty.txt --model-type bpe --digits 3", 2, "--digits has no meaning for"),
        (
            "--vocab-size 400 --model-prefix x --input empty.txt",
            2,
            "--model-prefix is for --model-type bpe and unigram",
        ),
        ("--vocab-size 400 --output x --input empty.txt --model-type wordpiece", 2, "none of: byte-bpe, bpe, unigram"),
        ("--vocab-size 400 --output x --input empty.txt --split-digits maybe", 2, "'maybe' is none of: true, false"),
    ],
)
def test_what_cannot_be_done_is_said_in_one_line(options: str, code: int, message: str, tmp_path: Path) -> None:
    (tmp_path / "bad.jsonl").write_text('{"text": "a b c"}\nno JSON\n')
    (tmp_path / "empty.txt").touch()
    (tmp_path / "data.bin").touch()
    done = run(*options.split(), cwd=tmp_path)
    assert (done.returncode, done.stdout) == (code, "")
    assert done.stderr.splitlines()[-1].startswith("mfm train-tokenizer: ")
    assert message in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bad.jsonl", "data.bin", "empty.txt"]


def test_an_interrupt_ends_it_at_once_and_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "input.txt").write_text("some text\n" * 3_000_000)
    command = [*MFM, "--input", "input.txt", "--document", "line", "--vocab-size", "300", "--output", "out"]
    process = subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    while not holds_open(process.pid, tmp_path / "input.txt"):
        assert process.poll() is None
    process.send_signal(signal.SIGINT)
    assert process.stderr is not None
    assert "Traceback" not in process.stderr.read()
    assert process.wait() in (130, -signal.SIGINT)
    assert [path.name for path in tmp_path.iterdir()] == ["input.txt"]


def holds_open(pid: int, path: Path) -> bool:
    """Whether a process has a file open now; its other files may come and go while they are looked at."""
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            if descriptor.readlink() == path:
                return True
    return False
