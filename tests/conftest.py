"""Fixtures that all tests share."""

from collections.abc import Sequence
from pathlib import Path

import hypothesis
import numpy as np
import pytest
from pairs import MakeCorpus, write_corpus

from mindformers_megatron.format.writer import IndexedDatasetWriter

# No test depends on how fast the machine is; fixtures here are folders and files that examples do not change.
hypothesis.settings.register_profile(
    "steady",
    deadline=None,
    suppress_health_check=[hypothesis.HealthCheck.too_slow, hypothesis.HealthCheck.function_scoped_fixture],
)
hypothesis.settings.load_profile("steady")


@pytest.fixture
def make_corpus(tmp_path: Path) -> MakeCorpus:
    """Makes ``<tmp>/<name>`` of ``documents``: token lists, or lengths (then of numbered tokens, EOD 0 at each end)."""

    def make(name: str, documents: Sequence[Sequence[int]] | Sequence[int], dtype: type = np.uint16) -> str:
        contents: list[list[int]] = []
        first = 1
        for document in documents:
            if isinstance(document, int):
                contents.append([*((first + place) % 60_000 + 1 for place in range(document - 1)), 0][:document])
                first += document
            else:
                contents.append(list(document))
        return write_corpus(tmp_path / name, contents, dtype)

    return make


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
