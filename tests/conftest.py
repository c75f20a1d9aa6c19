"""Fixtures that all tests share."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from pairs import MakeCorpus, write_corpus


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
