"""What preparing a corpus costs: processor time, memory and disk of every stage, of one core.

The texts are those of this machine (see ``corpus_clean.py``), as JSON lines, once and again with their words shuffled,
so that nothing is a duplicate of anything by being measured twice. Speeds are MB of the text that comes to a stage per
second of processor time; what a stage leaves behind is told per million documents, which is what docs/scale.md reckons
with. ``--times 10`` shows whether memory stays where it is.
"""

import argparse
import json
import random
import resource
import sysconfig
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from corpus_clean import BYTES, files, texts

from mindformers_megatron.corpus.prepare.report import write_report
from mindformers_megatron.corpus.prepare.run import Selection, carry_out
from mindformers_megatron.corpus.recipe_file import read_recipe
from mindformers_megatron.execution.engines import LocalEngine

_PART_MB = 16


class Stopwatch:
    """Processor time of what is begun and ended; see ``corpus.prepare.job_runner.Progress``."""

    def __init__(self) -> None:
        self.seconds: dict[tuple[str, str], float] = {}
        self.sizes: dict[tuple[str, str], int] = {}
        self._current = ("", "")
        self._begun = 0.0

    def begin(self, stage: str, what: str, total: int) -> None:
        """Starts it."""
        self._current = (stage, "joining" if what.startswith("joining") else what)
        self.sizes[self._current] = max(self.sizes.get(self._current, 0), total)
        self._begun = time.process_time()

    def advance(self, size: int) -> None:
        """Time is all that is looked at."""

    def end(self) -> None:
        """Stops it."""
        passed = time.process_time() - self._begun
        self.seconds[self._current] = self.seconds.get(self._current, 0.0) + passed


def write_texts(path: Path, docs: list[Path], times: int) -> int:
    """Writes documents as JSON lines; returns their bytes."""
    library = Path(sysconfig.get_path("stdlib"))
    folders = [*(folder for folder in docs if folder.is_dir()), library]
    found = texts(files(folders, "*.rst.txt", "*.rst", "*.txt", "*.md", "METADATA", "*.html"), BYTES // 2)
    found += texts(files([library], "*.py"), BYTES // 4)
    with path.open("w") as file:
        for text in _again(found, times):
            file.write(json.dumps({"text": text}, ensure_ascii=False) + "\n")
    return path.stat().st_size


def _again(found: list[str], times: int) -> Iterator[str]:
    yield from found
    chance = random.Random(1)
    for _ in range(times - 1):
        for text in found:
            lines = text.splitlines()
            for place, line in enumerate(lines):
                words = line.split(" ")
                chance.shuffle(words)
                lines[place] = " ".join(words)
            yield "\n".join(lines)


def size_below(folder: Path, pattern: str) -> int:
    return sum(path.stat().st_size for path in folder.glob(pattern))


def report(output: Path, watch: Stopwatch, statistics: dict[str, Any], size: int) -> None:
    whole = sum(watch.seconds.values())
    print(f"{'stage':48s} {'MB in':>8} {'CPU s':>8} {'MB/s':>8}")
    for key, seconds in watch.seconds.items():
        megabytes = watch.sizes[key] / 1e6
        rate = f"{megabytes / seconds:8.1f}" if megabytes and seconds > 0.05 else f"{'':8}"
        print(f"{': '.join(key):48s} {megabytes:8.1f} {seconds:8.2f} {rate}")
    print(f"{'all':48s} {size / 1e6:8.1f} {whole:8.2f} {size / 1e6 / whole:8.1f}")
    print(f"peak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:,.0f} MiB")
    came = 0
    for step in statistics["steps"]:
        documents = sum(counts["documents_in"] for counts in step["sources"].values())
        came = came or documents
        stage = step["step"]
        gathered = size_below(output, f"work/{stage}/gathered/*.npz")
        if gathered:
            print(f"{stage}: {documents:,} documents give {gathered / documents:,.0f} bytes each to the others")
    kept = size_below(output, "work/*/kept/*.parquet")
    print(f"shards of all stages: {kept / 1e6:,.1f} MB on disk, {kept / size:.2f} of the input")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--docs", type=Path, nargs="*", default=[Path("/usr/share/doc"), Path("/usr/share/devhelp")])
    parser.add_argument("--times", type=int, default=1, help="how many times the texts (1)")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        raw, output = Path(folder, "raw.jsonl"), Path(folder, "out")
        size = write_texts(raw, args.docs, args.times)
        recipe = read_recipe(
            {
                "output": str(output),
                "sources": {"docs": str(raw)},
                "steps": ["default", "exact_dedup", "near_dedup"],
                "splits": {"validation": 0.01},
                "tokenizer": {"train": 8192},
                "part_mb": _PART_MB,
                "memory_gb": 0.25,
            },
            "benchmark",
        )
        watch = Stopwatch()
        outcome = carry_out(recipe, LocalEngine(1), watch, Selection())
        assert outcome is not None
        report(output, watch, write_report(outcome), size)


if __name__ == "__main__":
    main()
