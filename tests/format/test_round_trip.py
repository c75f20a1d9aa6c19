"""What is written is what is read, in Megatron's bytes."""

import tempfile
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mindformers_megatron.format.dtypes import DTYPE_CODES
from mindformers_megatron.format.reader import IndexedDataset
from mindformers_megatron.format.writer import IndexedDatasetWriter

GOLDEN = Path(__file__).parent.parent / "golden"
GOLDEN_PAIRS = sorted(path.with_suffix("") for path in GOLDEN.glob("*/*.idx"))
INTEGERS = [dtype for dtype in DTYPE_CODES.values() if dtype.kind in "iu"]


@st.composite
def corpora(draw: st.DrawFn) -> tuple[np.dtype, list[list[list[int]]]]:
    dtype = draw(st.sampled_from(INTEGERS))
    limits = np.iinfo(dtype)
    ids = st.integers(int(limits.min), int(limits.max))
    sequences = st.lists(ids, max_size=6)
    return dtype, draw(st.lists(st.lists(sequences, max_size=3), max_size=8))


def assert_holds(prefix: str, dtype: np.dtype, documents: list[list[list[int]]], *, mmap: bool) -> None:
    dataset = IndexedDataset(prefix, mmap=mmap)
    sequences = [sequence for document in documents for sequence in document]
    assert dataset.dtype == dtype
    assert dataset.num_documents == len(documents)
    assert [sequence.tolist() for sequence in dataset] == sequences
    assert np.diff(dataset.index.document_indices).tolist() == [len(document) for document in documents]
    stream = [token for sequence in sequences for token in sequence]
    assert dataset.tokens(0, dataset.num_tokens).tolist() == stream


@given(corpora())
@settings(max_examples=40)
def test_documents_of_any_shape_and_dtype_come_back_as_they_were(corpus) -> None:
    dtype, documents = corpus
    with tempfile.TemporaryDirectory() as folder:
        with IndexedDatasetWriter(f"{folder}/one", dtype) as one:
            for sequences in documents:
                one.add_document([t for s in sequences for t in s], [len(s) for s in sequences])
        for mmap in (True, False):
            assert_holds(one.prefix, dtype, documents, mmap=mmap)
        flat = np.array([t for d in documents for s in d for t in s], dtype)
        lengths = [len(s) for d in documents for s in d]
        with IndexedDatasetWriter(f"{folder}/bulk", dtype) as bulk:
            bulk.add_documents(flat, lengths, [len(d) for d in documents])
        assert one.finalize() == bulk.finalize()


@given(st.lists(st.lists(st.integers(0, 255), max_size=5), max_size=8), st.integers(0, 8))
@settings(max_examples=40)
def test_one_call_or_many_write_the_same_bytes(documents: list[list[int]], cut: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        with IndexedDatasetWriter(f"{folder}/one", np.uint8) as one:
            for document in documents:
                one.add_document(document)
        with IndexedDatasetWriter(f"{folder}/bulk", np.uint8) as bulk:
            for some in (documents[:cut], documents[cut:]):
                bulk.add_documents([t for d in some for t in d], [len(d) for d in some])
        assert one.finalize() == bulk.finalize()


@pytest.mark.parametrize("golden", GOLDEN_PAIRS, ids=lambda path: path.name)
def test_pairs_of_megatron_are_written_again_with_the_same_bytes(golden: Path, tmp_path: Path) -> None:
    dataset = IndexedDataset(golden)
    bounds = dataset.index.document_indices.tolist()
    with IndexedDatasetWriter(tmp_path / "copy", dataset.dtype) as writer:
        for begin, end in pairwise(bounds):
            writer.add_document([token for sequence in dataset[begin:end] for token in sequence.tolist()])
    for suffix in (".bin", ".idx"):
        assert (tmp_path / f"copy{suffix}").read_bytes() == golden.with_suffix(suffix).read_bytes()


def test_a_pair_larger_than_every_buffer_comes_back(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    lengths = rng.integers(0, 4, 300_000)
    tokens = rng.integers(0, 65_536, int(lengths.sum())).astype(np.uint16)
    with IndexedDatasetWriter(tmp_path / "large", np.uint16) as writer:
        writer.add_documents(tokens, lengths, np.ones(lengths.size, np.int64))
    dataset = IndexedDataset(writer.prefix)
    np.testing.assert_array_equal(dataset.tokens(0, tokens.size), tokens)
    np.testing.assert_array_equal(dataset.index.sequence_lengths, lengths)
    np.testing.assert_array_equal(dataset.index.sequence_pointers, 2 * (np.cumsum(lengths) - lengths))
    np.testing.assert_array_equal(dataset.index.document_indices, np.arange(lengths.size + 1))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_floats_are_kept_in_the_types_megatron_has_for_them(tmp_path: Path, dtype: type) -> None:
    values = np.array([0.5, -1.25, 3e30], dtype)
    with IndexedDatasetWriter(tmp_path / "floats", dtype) as writer:
        writer.add_document(values)
    assert (tmp_path / "floats.idx").read_bytes()[17] == {np.float64: 6, np.float32: 7}[dtype]
    np.testing.assert_array_equal(IndexedDataset(writer.prefix)[0], values)


def test_modes_of_a_multimodal_pair_come_back(tmp_path: Path) -> None:
    with IndexedDatasetWriter(tmp_path / "images", np.int32, multimodal=True) as writer:
        writer.add_document([1, 2, 3], [1, 2], [0, 1])
        writer.add_document([4])
    dataset = IndexedDataset(writer.prefix, multimodal=True)
    assert dataset.index.sequence_modes is not None
    assert dataset.index.sequence_modes.tolist() == [0, 1, 0]
    assert dataset[1].tolist() == [2, 3]
