"""A blend for MindFormers, and real training runs on it."""

import os
import tempfile
from pathlib import Path

import numpy as np
import pytest

from mindformers_megatron.format.writer import IndexedDatasetWriter

# MindFormers opens its log files where this says, as soon as it is imported.
os.environ.setdefault("LOCAL_DEFAULT_PATH", tempfile.mkdtemp(prefix="mindformers-"))


@pytest.fixture(scope="session")
def corpora(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The ``.bin`` files of wiki, code and chat, in ids below 512."""
    folder = tmp_path_factory.mktemp("corpora")
    random = np.random.default_rng(0)
    paths = []
    for name, documents, shortest, longest in (("wiki", 60, 50, 400), ("code", 40, 20, 900), ("chat", 200, 5, 60)):
        lengths = random.integers(shortest, longest, documents)
        with IndexedDatasetWriter(str(folder / name), np.dtype(np.uint16)) as writer:
            writer.add_documents(random.integers(3, 512, lengths.sum()).astype(np.uint16), lengths)
            writer.finalize()
        paths.append(f"{folder / name}.bin")
    return paths


@pytest.fixture
def blend(corpora: list[str]) -> dict[str, object]:
    """The options of a small blend: 40 samples an epoch."""
    return {"dataset_dir": corpora, "dataset_weights": [0.5, 0.3, 0.2], "seq_length": 32, "num_samples": 40, "seed": 42}


@pytest.fixture(scope="session")
def shim() -> Path:
    """The folder that MindFormers' own launcher is given as its register path."""
    return Path(__file__).parents[2] / "configs" / "register"
