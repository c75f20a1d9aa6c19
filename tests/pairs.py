"""Pairs for tests: real files, made by the real writer, and those that Megatron itself made."""

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from mindformers_megatron.format.writer import IndexedDatasetWriter

GOLDEN = Path(__file__).parent / "golden"

MakeCorpus = Callable[..., str]


def write_corpus(prefix: Path, documents: Sequence[Sequence[int]], dtype: type = np.uint16) -> str:
    """Writes a pair with the given documents, one sequence each; returns its prefix."""
    with IndexedDatasetWriter(str(prefix), np.dtype(dtype)) as writer:
        for document in documents:
            writer.add_document(np.array(document, dtype=dtype))
    return str(prefix)
