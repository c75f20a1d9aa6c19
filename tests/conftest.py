"""Corpora for tests: real pairs, made by the real writer."""

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

from mindformers_megatron.format.writer import IndexedDatasetWriter

GOLDEN = Path(__file__).parent / "golden"

MakeCorpus = Callable[..., str]


def write_corpus(prefix: Path, documents: Sequence[Sequence[int]], dtype: type = np.uint16) -> str:
    """Writes a pair with the given documents, one sequence each; returns its prefix."""
    with IndexedDatasetWriter(str(prefix), np.dtype(dtype)) as writer:
        for document in documents:
            writer.add_document(np.array(document, dtype=dtype))
    return str(prefix)


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
