"""``mfm preprocess`` and ``tools/preprocess_data.py`` as processes."""

import fcntl
import json
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
from functools import partial
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
GOLDEN = ROOT / "tests" / "golden" / "preprocess"
MFM = [str(Path(sys.executable).parent / "mfm"), "preprocess"]
TOOL = [sys.executable, str(ROOT / "tools" / "preprocess_data.py")]


def run(*command: str | Path, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(word) for word in command], cwd=cwd, capture_output=True, text=True, check=False)


def assert_golden(prefix: Path, case: str) -> None:
    for suffix in ("bin", "idx"):
        expected = (GOLDEN / f"{case}_text_document.{suffix}").read_bytes()
        assert Path(f"{prefix}_text_document.{suffix}").read_bytes() == expected


def test_the_command_prints_a_summary(tmp_path: Path) -> None:
    done = run(*MFM, "--input", GOLDEN / "input.jsonl", "--tokenizer", GOLDEN / "tokenizer", "--output-prefix", "out",
               "--append-eod", "--workers", "2", cwd=tmp_path)  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("out_text_document.bin/.idx: 139 documents, 69,564 tokens (uint16)\n0.3 MB in ")
    assert_golden(tmp_path / "out", "eod")


def test_the_summary_comes_as_json_if_asked(tmp_path: Path) -> None:
    done = run(*MFM, "--input", GOLDEN / "*.jsonl", "--tokenizer", GOLDEN / "tokenizer", "--output-prefix", "out",
               "--json", cwd=tmp_path)  # fmt: skip
    summary = json.loads(done.stdout)
    assert (summary["documents"], summary["tokens"], summary["eod_id"]) == (139, 69_426, None)
    assert summary["pairs"]["out_text_document"]["num_sequences"] == 138
    assert summary["sources"]["edge"] == {"documents": 15, "tokens": 3081}
    assert_golden(tmp_path / "out", "plain")


def test_a_bad_line_is_one_line_on_stderr_and_exit_code_1(tmp_path: Path) -> None:
    (tmp_path / "bad.jsonl").write_text('{"text": "a"}\n{"text": \n')
    command = [*MFM, "--input", "bad.jsonl", "--tokenizer", str(GOLDEN / "tokenizer"), "--output-prefix", "out"]
    done = run(*command, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        "mfm preprocess: bad.jsonl, line 2 (byte 14): it is not valid JSON: Expecting value at column 10; "
        "mend it, or pass --on-error skip to leave such lines out\n"
    )
    done = run(*command, "--on-error", "1", cwd=tmp_path)
    assert done.returncode == 0
    assert done.stdout.endswith("1 bad lines skipped, listed in out.rejected.jsonl\n")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--on-error", "ignore"], "'ignore' is none of: fail, skip, a number"),
        (["--append-eod", "--eod-token", "<nowhere>"], "its vocabulary has no token '<nowhere>'"),
        (["--workers", "0"], "workers is 0; give 1 or more"),
    ],
)
def test_a_wrong_option_is_exit_code_2(options: list[str], message: str, tmp_path: Path) -> None:
    done = run(*MFM, "--input", GOLDEN / "input.jsonl", "--tokenizer", GOLDEN / "tokenizer", "--output-prefix", "out",
               *options, cwd=tmp_path)  # fmt: skip
    assert done.returncode == 2
    assert message in done.stderr.splitlines()[-1]
    assert list(tmp_path.iterdir()) == []


def test_progress_is_a_bar_on_a_terminal(tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("4H", 24, 100, 0, 0))
    command = [*MFM, "--input", GOLDEN / "input.jsonl", "--tokenizer", GOLDEN / "tokenizer", "--output-prefix", "out"]
    process = subprocess.Popen(command, cwd=tmp_path, stderr=theirs, stdout=subprocess.DEVNULL)
    os.close(theirs)
    shown = b""
    try:
        while data := os.read(ours, 4096):
            shown += data
    except OSError:  # how a terminal whose other end is closed says so
        pass
    assert process.wait() == 0
    assert b"tokenizing: 100%" in shown
    assert b"tokens/s" in shown


# By the slower engine, what is to be interrupted takes seconds.
SLOWLY = ["--engine", "hf"]


def test_an_interrupt_ends_it_at_once_and_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "long.jsonl").write_bytes((GOLDEN / "input.jsonl").read_bytes() * 200)
    command = [*TOOL, "--input", "long.jsonl", "--tokenizer", str(GOLDEN / "tokenizer"), "--output-prefix", "out",
               "--workers", "2", "--log-interval", "1", *SLOWLY]  # fmt: skip
    process = subprocess.Popen(
        command, cwd=tmp_path, stderr=subprocess.PIPE, text=True, start_new_session=True,
        # A shell that starts tests in its background lets them, and what they start, ignore interrupts.
        preexec_fn=partial(signal.signal, signal.SIGINT, signal.SIG_DFL),
    )  # fmt: skip
    assert process.stderr is not None
    assert process.stderr.readline().startswith("tokenizing: ")
    os.killpg(process.pid, signal.SIGINT)
    rest = process.stderr.read()
    assert process.wait() == 130
    assert rest.splitlines()[-1] == "preprocess_data.py: interrupted"
    assert "Traceback" not in rest
    assert {path.name for path in tmp_path.iterdir()} <= {"long.jsonl", "out.parts"}


def test_a_killed_run_leaves_nothing_readable_and_the_same_command_goes_on(tmp_path: Path) -> None:
    (tmp_path / "long.jsonl").write_bytes((GOLDEN / "input.jsonl").read_bytes() * 60)
    command = [*TOOL, "--input", "long.jsonl", "--tokenizer", str(GOLDEN / "tokenizer"), "--output-prefix", "out",
               "--workers", "2", "--log-interval", "1", *SLOWLY]  # fmt: skip
    process = subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    assert process.stderr.readline().startswith("tokenizing: ")
    process.kill()
    # Read to the end, which comes when the last worker is gone too.
    assert "Traceback" not in process.stderr.read()
    process.wait()
    assert not (tmp_path / "out_text_document.bin").exists()
    assert not (tmp_path / "out_text_document.idx").exists()
    assert run(*command, cwd=tmp_path).returncode == 0
    assert (tmp_path / "out_text_document.bin").read_bytes() == 60 * (GOLDEN / "plain_text_document.bin").read_bytes()
    suffixes = ("bin", "docs.parquet", "idx", "md5", "metadata.json")
    names = {"long.jsonl", "out.data_stats.json", "out.stats_report.txt"} | {f"out_text_document.{s}" for s in suffixes}
    assert {path.name for path in tmp_path.iterdir()} == names


MEGATRON = {
    "2026": "--tokenizer-type HuggingFaceTokenizer --tokenizer-model {tokenizer} --append-eod "
    "--tokenizer-hf-no-include-special-tokens --workers 2 --partitions 2 --keep-sequential-samples "
    "--log-interval 100000",
    "2025": "--tokenizer-type HuggingFaceTokenizer --tokenizer-model {tokenizer} --tokenizer-hf-use-fast "
    "--legacy-tokenizer --append-eod --workers 1 --json-keys text",
    "2024": "--tokenizer-type GPT2BPETokenizer --vocab-file {vocab} --merge-file {merges} --append-eod --workers 2 "
    "--vocab-extra-ids 0",
    "with --dataset-impl": "--vocab-file {vocab} --merge-file {merges} --tokenizer-type GPT2BPETokenizer --workers 2 "
    "--append-eod --dataset-impl mmap",
    "with --vocab": "--vocab {vocab} --merge-file {merges} --append-eod",
    "MindFormers": "--tokenizer-type HuggingFaceTokenizer --tokenizer-dir {tokenizer} --append-eod --workers 2 "
    "--vocab-size 786 --trust-remote-code",
}


@pytest.mark.parametrize("case", MEGATRON)
def test_megatrons_command_lines_run_as_they_are(case: str, tmp_path: Path) -> None:
    from tokenizers import Tokenizer

    Tokenizer.from_file(str(GOLDEN / "tokenizer" / "tokenizer.json")).model.save(str(tmp_path))
    options = MEGATRON[case].format(
        tokenizer=GOLDEN / "tokenizer", vocab=tmp_path / "vocab.json", merges=tmp_path / "merges.txt"
    )
    done = run(*TOOL, "--input", GOLDEN / "input.jsonl", "--output-prefix", tmp_path / "my_dataset", *options.split())
    assert (done.returncode, done.stderr) == (0, "")
    assert_golden(tmp_path / "my_dataset", "eod")


def test_other_spellings_run_as_they_are(tmp_path: Path) -> None:
    done = run(*TOOL, "--input_path", GOLDEN / "input.jsonl", "--tokenizer", GOLDEN / "tokenizer", "--output_prefix",
               "out", "--seq_len", "4096", "--num_workers", "2", cwd=tmp_path)  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert_golden(tmp_path / "out", "plain")
    assert json.loads((tmp_path / "out_text_document.metadata.json").read_text())["seq_length"] == 4096


def test_sentencepiece_runs_under_each_of_its_names(tmp_path: Path) -> None:
    sentencepiece = pytest.importorskip("sentencepiece")
    texts = [json.loads(line)["text"] for line in (GOLDEN / "input.jsonl").read_bytes().splitlines()]
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=(line for text in texts for line in text.splitlines() if line.strip()),
        model_prefix=str(tmp_path / "tokenizer"),
        vocab_size=600,
        byte_fallback=True,
        minloglevel=2,
    )
    processor = sentencepiece.SentencePieceProcessor(model_file=str(tmp_path / "tokenizer.model"))
    expected = sum(len(processor.encode(text)) for text in texts)
    for name in ("sentencepiece", "SentencePieceTokenizer", "GPTSentencePieceTokenizer", "Llama2Tokenizer"):
        done = run(*TOOL, "--input", GOLDEN / "input.jsonl", "--tokenizer-type", name, "--tokenizer-model",
                   "tokenizer.model", "--output-prefix", "pretrain_wiki_mmap", "--seq-length", "2048",
                   "--workers", "64", "--json", cwd=tmp_path)  # fmt: skip
        assert json.loads(done.stdout)["tokens"] == expected


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--tokenizer-type", "Magic"], "--tokenizer-type Magic: not one of HuggingFaceTokenizer, GPT2BPETokenizer, "),
        (["--dataset-impl", "lazy"], "--dataset-impl lazy: Megatron's format of today is mmap"),
        (["--tokenizer-type", "Llama2Tokenizer"], "is for a HuggingFaceTokenizer, and a SentencePieceTokenizer was"),
    ],
)
def test_unknown_values_say_what_is_possible(options: list[str], message: str, tmp_path: Path) -> None:
    done = run(*TOOL, "--input", GOLDEN / "input.jsonl", "--tokenizer-model", GOLDEN / "tokenizer", "--output-prefix",
               tmp_path / "out", *options)  # fmt: skip
    assert done.returncode == 2
    assert message in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_special_tokens_are_added_as_megatron_does_unless_told_not_to(tmp_path: Path) -> None:
    state = json.loads((GOLDEN / "tokenizer" / "tokenizer.json").read_text())
    state["post_processor"] = {
        "type": "TemplateProcessing",
        "single": [{"SpecialToken": {"id": "<|endoftext|>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
        "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
        "special_tokens": {"<|endoftext|>": {"id": "<|endoftext|>", "ids": [0], "tokens": ["<|endoftext|>"]}},
    }
    (tmp_path / "tokenizer.json").write_text(json.dumps(state))
    counts = {}
    for flag in ("", "--tokenizer-hf-include-special-tokens", "--tokenizer-hf-no-include-special-tokens"):
        done = run(*TOOL, "--input", GOLDEN / "input.jsonl", "--tokenizer-model", tmp_path / "tokenizer.json",
                   "--output-prefix", tmp_path / "out", "--json", *flag.split())  # fmt: skip
        counts[flag] = json.loads(done.stdout)["tokens"]
    assert list(counts.values()) == [69_426 + 139, 69_426 + 139, 69_426]


def test_records_come_from_standard_input_too(tmp_path: Path) -> None:
    command = [*MFM, "--input", "web=-", "--tokenizer", str(GOLDEN / "tokenizer"), "--output-prefix", "out", "--json"]
    content = (GOLDEN / "input.jsonl").read_bytes()
    done = subprocess.run(command, cwd=tmp_path, input=content, capture_output=True, check=True)
    assert json.loads(done.stdout)["sources"] == {"web": {"documents": 139, "tokens": 69_426}}
    assert_golden(tmp_path / "out", "plain")


def test_sentences_and_null_tokenizers_are_asked_for_as_with_megatron(tmp_path: Path) -> None:
    (tmp_path / "input.jsonl").write_text('{"text": "One. Two."}\n')
    done = run(*TOOL, "--input", "input.jsonl", "--output-prefix", "out", "--tokenizer-type", "NullTokenizer",
               "--vocab-size", "1000", "--split-sentences", "--append-eod", "--workers", "2", "--partitions", "1",
               "--json", cwd=tmp_path)  # fmt: skip
    assert done.returncode == 0, done.stderr
    ((prefix, pair),) = json.loads(done.stdout)["pairs"].items()
    assert (prefix, pair["num_sequences"], pair["num_tokens"]) == ("out_text_sentence", 2, 9)


def test_numbers_of_workers_are_tried_on_the_first_documents_and_nothing_is_left(tmp_path: Path) -> None:
    command = [*TOOL, "--input", GOLDEN / "input.jsonl", "--tokenizer-model", GOLDEN / "tokenizer", "--output-prefix",
               tmp_path / "out", "--find-optimal-num-workers", "--max-documents", "10"]  # fmt: skip
    done = run(*command, "--workers-to-check", "3", "1", "--json")
    found = json.loads(done.stdout)
    assert [trial["workers"] for trial in found["tried"]] == [3, 1]
    assert found["best"] == max(found["tried"], key=lambda trial: trial["documents_per_second"])["workers"]
    assert re.fullmatch(r"(--workers \d+: .*documents/s, .*MB/s\n)+fastest: --workers \d+\n", run(*command).stdout)
    assert not list(tmp_path.iterdir())


def test_no_number_of_workers_is_found_where_there_is_nothing_to_try_them_on(tmp_path: Path) -> None:
    (tmp_path / "empty.jsonl").touch()
    for options, reason in (
        (["--input", tmp_path / "empty.jsonl"], "has no records"),
        (["--input", "-"], "standard input can be read only once"),
        (["--input", GOLDEN / "input.jsonl", "--workers-to-check", "0"], "--workers-to-check 0: give 1 or more"),
    ):
        done = run(*TOOL, "--tokenizer-model", GOLDEN / "tokenizer", "--output-prefix", tmp_path / "out", *options,
                   "--find-optimal-num-workers")  # fmt: skip
        assert done.returncode != 0
        assert reason in done.stderr
        assert done.stderr.count("\n") == 1
