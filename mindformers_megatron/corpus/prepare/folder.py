"""Where things are in the folder that a recipe fills."""

import contextlib
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from mindformers_megatron.format.atomic import StagedFile, remove_left_over


@dataclass(frozen=True, slots=True)
class OutputFolder:
    """The folder.

    Attributes:
        root: the folder itself.
    """

    root: Path

    @property
    def corpora(self) -> Path:
        """The pairs."""
        return self.root / "corpora"

    @property
    def tokenizer(self) -> Path:
        """The tokenizer, if one is trained."""
        return self.root / "tokenizer"

    @property
    def training(self) -> Path:
        """The training YAML."""
        return self.root / "train.yaml"

    @property
    def statistics(self) -> Path:
        """What happened, for programs."""
        return self.root / "data_stats.json"

    @property
    def report(self) -> Path:
        """The same, for people."""
        return self.root / "stats_report.txt"

    @property
    def rejects(self) -> Path:
        """The records that cannot be read."""
        return self.root / "rejected.jsonl"

    @property
    def work(self) -> Path:
        """What stages leave for each other. Without it everything is done anew."""
        return self.root / "work"

    @property
    def spill(self) -> Path:
        """What does not fit in memory, while it does not."""
        return self.work / "spill"

    def table(self, name: str) -> Path:
        """Where each document dropped by a global step is listed."""
        return self.root / f"{name}.parquet"

    def kept(self, stage: str) -> Path:
        """The documents that a stage passes on, in shards."""
        return self.work / stage / "kept"

    def gathered(self, stage: str) -> Path:
        """What each shard gives to the global step that a stage begins with."""
        return self.work / stage / "gathered"

    def found(self, stage: str) -> Path:
        """What that step has found."""
        return self.work / stage / "found"

    def tokens(self) -> Path:
        """The pairs of shards."""
        return self.work / "tokenize" / "shards"

    def joined(self) -> Path:
        """The markers of pairs that are complete."""
        return self.work / "tokenize" / "joined"

    @contextlib.contextmanager
    def claim(self) -> Iterator[None]:
        """Keeps other runs out of the folder, and removes what a killed one was in the midst of writing.

        A run that ends before it has written anything leaves no folder behind that was not there.

        Raises:
            ConfigError: another run is at work there, or it cannot be written to.
        """
        is_new = not self.root.exists()
        self.work.mkdir(parents=True, exist_ok=True)
        claimed = StagedFile(self.work / "running", exclusive=True)
        try:
            remove_left_over(self.root)
            for left_over in (*self.work.glob("*/*/*.tmp"), *self.corpora.glob("*.*.tmp")):
                left_over.unlink(missing_ok=True)
            yield
        finally:
            claimed.discard()
            if is_new and not any(path.is_file() for path in self.root.rglob("*")):
                shutil.rmtree(self.root, ignore_errors=True)
