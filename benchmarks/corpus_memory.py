"""How much memory preparing and deduplicating a corpus take, and whether it stays where it is at ten times the input.

The texts are those of this machine (see ``corpus_clean.py``), again and again with their words shuffled line by line,
so that nothing is a duplicate by being there twice. The memory is that of the command and its workers together, looked
at ten times a second: what is theirs alone, and their share of what they have in common.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from corpus import write_texts

_EVERY_SECONDS = 0.1
_EVALUATION_ITEMS = 500


def write_input(folder: Path, megabytes: int, docs: list[Path]) -> list[Path]:
    """JSON lines of about that size, in files of 50 MB, and a tenth of a percent of it as an evaluation set."""
    folder.mkdir()
    whole = folder / "whole.jsonl"
    once = write_texts(whole, docs, 1)
    write_texts(whole, docs, -(-megabytes * 1_000_000 // once))
    paths, written, total = [], 0, 0
    out = None
    with whole.open("rb") as lines, (folder / "evaluation.jsonl").open("wb") as evaluation:
        for number, line in enumerate(lines):
            if out is None or written > 50_000_000:
                paths.append(folder / f"raw-{len(paths):03}.jsonl")
                out = paths[-1].open("wb")
                written = 0
            out.write(line)
            written += len(line)
            total += len(line)
            if number % 100 == 7 and number < 100 * _EVALUATION_ITEMS:
                text = json.loads(line)["text"]
                evaluation.write(json.dumps({"question": text[-300:]}).encode() + b"\n")
            if total >= megabytes * 1_000_000:
                break
    whole.unlink()
    return paths


def memory_of(process: int) -> int:
    """Bytes of a process and of those below it."""
    total, waiting = 0, [process]
    while waiting:
        number = waiting.pop()
        try:
            rollup = Path(f"/proc/{number}/smaps_rollup").read_text()
            for task in Path(f"/proc/{number}/task").iterdir():
                waiting += map(int, (task / "children").read_text().split())
        except (OSError, ProcessLookupError):
            continue
        total += next(int(line.split()[1]) << 10 for line in rollup.splitlines() if line.startswith("Pss_Anon:"))
    return total


def measured(command: list[str]) -> tuple[float, int]:
    """Seconds that a command takes, and the most memory."""
    begun, most = time.monotonic(), 0
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    while process.poll() is None:
        most = max(most, memory_of(process.pid))
        time.sleep(_EVERY_SECONDS)
    if process.returncode:
        sys.exit(f"{' '.join(command)}: {process.stderr.read() if process.stderr else ''}")
    return time.monotonic() - begun, most


def commands(folder: Path, paths: list[Path], workers: int, memory_gb: float) -> Iterator[tuple[str, list[str]]]:
    """What is measured: a whole recipe, and deduplication by itself."""
    mfm = [sys.executable, "-m", "mindformers_megatron.cli"]
    recipe = folder / "recipe.yaml"
    recipe.write_text(
        json.dumps(
            {
                "output": str(folder / "prepared"),
                "sources": {"web": {"paths": list(map(str, paths))}},
                "steps": ["default", "exact_dedup", "near_dedup", "decontaminate"],
                "evaluation": {"quiz": {"paths": str(folder / "evaluation.jsonl")}},
                "splits": {"validation": 0.05},
                "tokenizer": {"train": 8192},
                "part_mb": 16,
                "memory_gb": memory_gb,
            }
        )
    )
    yield "mfm prepare", [*mfm, "prepare", str(recipe), "--workers", str(workers)]
    output = ["--output", str(folder / "deduplicated.jsonl.zst"), "--memory-gb", str(memory_gb)]
    yield "mfm dedup", [*mfm, "dedup", *map(str, paths), *output, "--workers", str(workers)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--docs", type=Path, nargs="*", default=[Path("/usr/share/doc"), Path("/usr/share/devhelp")])
    parser.add_argument("--megabytes", type=int, default=100, help="of input, at first (100)")
    parser.add_argument("--times", type=int, default=10, help="and how many times that (10)")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--memory-gb", type=float, default=0.125, help="for global steps (0.125)")
    args = parser.parse_args()
    print(f"{'':14} {'input':>10} {'seconds':>9} {'MB/s':>7} {'peak memory':>12}", flush=True)
    for megabytes in (args.megabytes, args.megabytes * args.times):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name, "input")
            paths = write_input(folder, megabytes, args.docs)
            size = sum(path.stat().st_size for path in paths) / 1e6
            for what, command in commands(folder, paths, args.workers, args.memory_gb):
                seconds, most = measured(command)
                row = f"{what:14} {size:7,.0f} MB {seconds:9,.0f} {size / seconds:7.1f} {most / 2**20:8,.0f} MiB"
                print(row, flush=True)


if __name__ == "__main__":
    main()
