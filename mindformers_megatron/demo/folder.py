"""The demo's working folder: where everything in it is, and that nothing but the demo's own is ever removed."""

import shutil
from dataclasses import dataclass
from pathlib import Path

from mindformers_megatron.errors import ConfigError

_MARK = "made-by-mfm-demo"
_OWN = ("text", "tokenizer", "corpora", "straight", "interrupted")


@dataclass(frozen=True, slots=True)
class RunFiles:
    """One training run.

    Attributes:
        folder: all that it writes.
    """

    folder: Path

    @property
    def config(self) -> Path:
        """What it trains."""
        return self.folder / "train.yaml"

    @property
    def output(self) -> Path:
        """What MindFormers writes."""
        return self.folder / "output"

    @property
    def checkpoints(self) -> Path:
        """Its checkpoints."""
        return self.output / "checkpoint"

    @property
    def steps(self) -> Path:
        """What it logs of each step, as JSON lines."""
        return self.folder / "steps.jsonl"


@dataclass(frozen=True, slots=True)
class DemoFolder:
    """The working folder.

    Attributes:
        root: the folder itself.
    """

    root: Path

    @classmethod
    def claim(cls, root: Path) -> "DemoFolder":
        """Makes the folder, or empties the one that an earlier demo made.

        Raises:
            ConfigError: there is something else in it.
        """
        mark = root / _MARK
        if root.exists() and not root.is_dir():
            raise ConfigError(f"{root}: is no folder; give another one as --dir")
        if root.is_dir() and any(root.iterdir()) and not mark.is_file():
            raise ConfigError(f"{root}: is not empty, and no demo made it; give a new folder as --dir")
        root.mkdir(parents=True, exist_ok=True)
        mark.touch()
        for name in _OWN:
            if (root / name).exists():
                shutil.rmtree(root / name)
            (root / name).mkdir()
        return cls(root.resolve())

    @property
    def tokenizer(self) -> Path:
        """The tokenizer."""
        return self.root / "tokenizer"

    @property
    def straight(self) -> RunFiles:
        """The run that goes straight through."""
        return RunFiles(self.root / "straight")

    @property
    def interrupted(self) -> RunFiles:
        """The run that is killed and resumed."""
        return RunFiles(self.root / "interrupted")

    def text(self, corpus: str) -> Path:
        """The text of a corpus, as JSON lines."""
        return self.root / "text" / f"{corpus}.jsonl"

    def output_prefix(self, corpus: str) -> str:
        """What ``mfm preprocess`` is told to call a corpus."""
        return str(self.root / "corpora" / corpus)

    def pair(self, corpus: str) -> str:
        """The prefix of a corpus's ``.bin/.idx``."""
        return f"{self.output_prefix(corpus)}_text_document"
