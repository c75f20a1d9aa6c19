"""Carrying recipes out, and telling what came out."""

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from mindformers_megatron.corpus.prepare.outcome import Outcome
from mindformers_megatron.corpus.prepare.report import write_report
from mindformers_megatron.corpus.prepare.run import Selection, carry_out
from mindformers_megatron.corpus.recipe_file import read_recipe
from mindformers_megatron.execution.engines import Engine, LocalEngine


class Watcher:
    """Notes what is begun."""

    def __init__(self) -> None:
        self.begun: list[tuple[str, str]] = []
        self.total = self.done = 0

    def begin(self, stage: str, what: str, total: int) -> None:
        self.begun.append((stage, what))
        self.total += total

    def advance(self, size: int) -> None:
        self.done += size

    def end(self) -> None:
        pass


def prepare(
    values: Mapping[str, Any],
    engine: Engine | None = None,
    *,
    only: str | None = None,
    start: str | None = None,
    watcher: Watcher | None = None,
) -> Outcome | None:
    """Carries out a recipe and writes its report."""
    made = read_recipe(values, "recipe.yaml")
    outcome = carry_out(made, engine or LocalEngine(1), watcher or Watcher(), Selection(only=only, start=start))
    if outcome is not None:
        write_report(outcome)
    return outcome


def digests(output: Path) -> dict[str, str]:
    """What came out that people use, by file; provenance and tables by their rows."""
    found = {}
    for path in sorted([*output.glob("corpora/*"), *output.iterdir()]):
        name = path.relative_to(output).as_posix()
        if path.suffix in (".bin", ".idx") or path.name in ("data_stats.json", "train.yaml", "rejected.jsonl"):
            found[name] = hashlib.sha256(path.read_bytes()).hexdigest()
        elif path.suffix == ".parquet":
            found[name] = hashlib.sha256(repr(pq.read_table(path).to_pylist()).encode()).hexdigest()
    return found


def ids(output: Path, source: str = "*", part: str = "*") -> set[str]:
    """The ids of documents in pairs."""
    found: set[str] = set()
    for path in output.glob(f"corpora/{source}_{part}_text_document.docs.parquet"):
        found.update(pq.read_table(path).column("id").to_pylist())
    return found
