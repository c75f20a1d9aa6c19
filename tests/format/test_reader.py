"""Reading: bounds, lifetimes, processes and threads."""

import gc
import multiprocessing
import os
import pickle
import struct
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mindformers_megatron.errors import DataError
from mindformers_megatron.format.reader import IndexedDataset
from mindformers_megatron.format.writer import IndexedDatasetWriter

SEQUENCES = [[5, 6, 7], [1, 2], [], [3], [9, 8, 7, 6], [4]]
STREAM = [token for sequence in SEQUENCES for token in sequence]


@pytest.fixture(params=[True, False], ids=["mmap", "pread"])
def dataset(request: pytest.FixtureRequest, pair: str) -> IndexedDataset:
    return IndexedDataset(pair, mmap=request.param)


def test_sequences_are_indexed_like_a_list(dataset: IndexedDataset) -> None:
    for i in range(-len(SEQUENCES), len(SEQUENCES)):
        assert dataset[i].tolist() == SEQUENCES[i]
        assert dataset[np.int32(i)].tolist() == SEQUENCES[i]


@pytest.mark.parametrize("i", [6, -7, 10**30])
def test_a_sequence_that_is_not_there_is_an_index_error_with_both_numbers(dataset: IndexedDataset, i: int) -> None:
    with pytest.raises(IndexError, match=f"sequence {i} of 6"):
        dataset[i]


def test_slices_are_those_of_a_list(dataset: IndexedDataset) -> None:
    bounds = [None, -7, -2, 0, 1, 3, 6, 9]
    for begin in bounds:
        for end in bounds:
            for step in (None, 1, 2, -1):
                part = slice(begin, end, step)
                assert [sequence.tolist() for sequence in dataset[part]] == SEQUENCES[part]


def test_part_of_a_sequence(dataset: IndexedDataset) -> None:
    assert dataset.get(4, 1).tolist() == [8, 7, 6]
    assert dataset.get(-2, 1, 2).tolist() == [8, 7]
    assert dataset.get(4, 4).tolist() == []


@pytest.mark.parametrize(("offset", "length"), [(-1, None), (5, None), (0, 5), (3, 2), (0, -1)])
def test_a_part_beyond_its_sequence_is_an_index_error(dataset: IndexedDataset, offset: int, length: int | None) -> None:
    with pytest.raises(IndexError, match="sequence 4 has 4 tokens"):
        dataset.get(4, offset, length)


@pytest.mark.parametrize(("start", "count"), [(-1, 1), (0, 12), (11, 1), (5, -1), (2**70, 1)])
def test_tokens_beyond_the_stream_are_an_index_error(dataset: IndexedDataset, start: int, count: int) -> None:
    with pytest.raises(IndexError, match="of 11"):
        dataset.tokens(start, count)


def test_the_stream_runs_across_documents(dataset: IndexedDataset) -> None:
    for start in range(12):
        for count in range(12 - start):
            assert dataset.tokens(start, count).tolist() == STREAM[start : start + count]


def test_what_is_read_cannot_be_written_to(dataset: IndexedDataset) -> None:
    with pytest.raises(ValueError, match="read-only"):
        dataset[0][0] = 1


def test_views_outlive_the_dataset_and_the_files(pair: str) -> None:
    dataset = IndexedDataset(pair)
    view, lengths = dataset.tokens(0, 11), dataset.index.sequence_lengths
    del dataset
    for suffix in (".bin", ".idx"):
        Path(pair + suffix).unlink()
    gc.collect()
    assert view.tolist() == STREAM
    assert lengths.tolist() == [len(sequence) for sequence in SEQUENCES]


def test_a_file_that_was_cut_after_opening_is_noticed_without_mmap(pair: str) -> None:
    dataset = IndexedDataset(pair, mmap=False)
    os.truncate(pair + ".bin", 6)
    assert dataset.tokens(0, 3).tolist() == STREAM[:3]
    with pytest.raises(DataError, match="truncated to 6 bytes"):
        dataset.tokens(2, 4)


@pytest.mark.parametrize("value", [1, -2, 22, 2**62])
def test_a_pointer_outside_the_tokens_is_a_data_error_naming_the_sequence(pair: str, value: int) -> None:
    path = Path(pair + ".idx")
    content = bytearray(path.read_bytes())
    struct.pack_into("<q", content, 34 + 4 * 6 + 8 * 3, value)
    path.write_bytes(content)
    with pytest.raises(DataError, match="sequence 3"):
        IndexedDataset(pair)[3]


def test_a_pickled_dataset_is_small_and_reads_the_same(dataset: IndexedDataset) -> None:
    data = pickle.dumps(dataset)
    assert len(data) < 500 + len(dataset.prefix)
    assert [sequence.tolist() for sequence in pickle.loads(data)] == SEQUENCES


def test_a_pickled_dataset_notices_that_its_pair_was_replaced(
    dataset: IndexedDataset, write: Callable[..., str]
) -> None:
    data = pickle.dumps(dataset)
    write(dataset.prefix, [[[1]]])
    with pytest.raises(DataError, match="do not overwrite"):
        pickle.loads(data)


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_worker_processes_read_what_their_parent_opened(dataset: IndexedDataset, method: str) -> None:
    with multiprocessing.get_context(method).Pool(2) as pool:
        results = pool.starmap(dataset.tokens, [(start, 4) for start in range(8)])
    assert [result.tolist() for result in results] == [STREAM[start : start + 4] for start in range(8)]


@pytest.mark.parametrize("mmap", [True, False])
def test_threads_read_at_once(tmp_path: Path, write: Callable[..., str], mmap: bool) -> None:
    dataset = IndexedDataset(write(tmp_path / "long", [[list(range(60_000))]]), mmap=mmap)
    with ThreadPoolExecutor(8) as threads:
        starts = list(range(0, 59_000, 59))
        for start, tokens in zip(starts, threads.map(lambda s: dataset.tokens(s, 500), starts), strict=True):
            np.testing.assert_array_equal(tokens, np.arange(start, start + 500))


@given(st.data())
def test_a_window_is_the_slice_of_the_stream(data: st.DataObject) -> None:
    golden = IndexedDataset(Path(__file__).parent.parent / "golden" / "sampling" / "tiny")
    start = data.draw(st.integers(0, golden.num_tokens))
    count = data.draw(st.integers(0, golden.num_tokens - start))
    np.testing.assert_array_equal(golden.tokens(start, count), np.concatenate(golden[:])[start : start + count])


@pytest.mark.parametrize("mmap", [True, False])
def test_announcing_a_read_changes_nothing(tmp_path: Path, mmap: bool) -> None:
    with IndexedDatasetWriter(tmp_path / "x", np.uint16) as writer:
        writer.add_documents(np.arange(10_000), [10_000])
    dataset = IndexedDataset(tmp_path / "x", mmap=mmap)
    start, count = np.array([0, 9_999, 4_097]), np.array([10_000, 1, 3_000])
    dataset.announce(start, count)
    for begin, size in zip(start, count, strict=True):
        assert np.array_equal(dataset.tokens(begin, size), np.arange(begin, begin + size))
