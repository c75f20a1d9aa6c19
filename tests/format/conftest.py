from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from tokenized import Pair, copy_pair, tokenize_corpus

from mindformers_megatron.format.writer import IndexedDatasetWriter

Document = Sequence[Sequence[int]]

# One of each kind: plain, of several sequences, empty, with a sequence without tokens.
DOCUMENTS: list[Document] = [[[5, 6, 7]], [[1, 2], [], [3]], [], [[9, 8, 7, 6]], [[4]]]


def write_documents(
    prefix: Path | str, documents: Sequence[Document], dtype: object = np.uint16, **options: bool
) -> str:
    with IndexedDatasetWriter(prefix, dtype, **options) as writer:
        for sequences in documents:
            writer.add_document([token for sequence in sequences for token in sequence], [len(s) for s in sequences])
    return writer.prefix


@pytest.fixture
def pair(tmp_path: Path) -> str:
    """A small pair with documents of every kind."""
    return write_documents(tmp_path / "corpus", DOCUMENTS)


@pytest.fixture(scope="session")
def write() -> Callable[..., str]:
    """``write(prefix, documents, dtype, **options)`` writes a pair and returns its prefix."""
    return write_documents


@pytest.fixture(scope="session")
def original(tmp_path_factory: pytest.TempPathFactory) -> Pair:
    """A corpus of 10,000 documents, with metadata and provenance, sound."""
    return tokenize_corpus(tmp_path_factory.mktemp("original"))


@pytest.fixture
def copy(original: Pair, tmp_path: Path) -> Pair:
    """A copy of it, to be damaged."""
    return copy_pair(original, tmp_path / "copy")
