"""Lengths of documents, against a look at each."""

from collections import Counter
from typing import Any

import numpy as np

from mindformers_megatron import IndexedDataset
from mindformers_megatron.format.writer import IndexedDatasetWriter
from mindformers_megatron.report.lengths import length_histogram


def test_documents_are_counted_by_the_bits_of_their_length(make_corpus: Any) -> None:
    lengths = [1, 1, 2, 3, 4, 7, 8, 15, 16, 1000]
    histogram = length_histogram(IndexedDataset(make_corpus("a", lengths)).index)
    assert histogram.counts == Counter(length.bit_length() for length in lengths)
    assert (histogram.documents, histogram.of, histogram.longest) == (10, 10, 1000)
    assert histogram.median == int(np.median(lengths))


def test_documents_of_several_sequences_and_empty_ones_count_as_one(tmp_path: Any) -> None:
    with IndexedDatasetWriter(str(tmp_path / "b"), np.dtype(np.uint16)) as writer:
        writer.add_document(np.arange(12, dtype=np.uint16), lengths=[5, 4, 3])
        writer.add_document(np.zeros(0, dtype=np.uint16))
        writer.add_document(np.arange(3, dtype=np.uint16))
    histogram = length_histogram(IndexedDataset(tmp_path / "b").index)
    assert histogram.counts == {0: 1, 2: 1, 4: 1}


def test_an_empty_pair_has_no_lengths(tmp_path: Any) -> None:
    with IndexedDatasetWriter(str(tmp_path / "c"), np.dtype(np.uint16)):
        pass
    assert length_histogram(IndexedDataset(tmp_path / "c").index).counts == {}
