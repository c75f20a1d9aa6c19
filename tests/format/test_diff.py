"""What two pairs have in common and where they part is seen, whatever types they are written in."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenized import Pair

from mindformers_megatron.errors import DataError
from mindformers_megatron.execution.processes import map_ordered
from mindformers_megatron.format.diff import PairDifference, compare_pairs
from mindformers_megatron.format.digests import document_digests
from mindformers_megatron.format.documents import DocumentBatch
from mindformers_megatron.format.metadata import read_metadata, write_metadata
from mindformers_megatron.format.verify.tasks import TaskWorker

Documents = Sequence[Sequence[int]]
A: Documents = [[1, 2, 3], [4, 5], [], [6], [4, 5], [7, 8, 9]]


@pytest.fixture
def compare(tmp_path: Path, write: Callable[..., str]) -> Callable[..., PairDifference]:
    """Compares A with others."""

    def both(other: Documents, dtype: type = np.uint16) -> PairDifference:
        left = write(tmp_path / "a", [[d] if d else [] for d in A], np.uint16)
        return compare_pairs(left, write(tmp_path / "b", [[d] if d else [] for d in other], dtype))

    return both


def test_a_pair_is_the_same_as_its_copy_in_any_type(compare: Callable[..., PairDifference]) -> None:
    assert (found := compare(A)).same_bytes and found.same
    found = compare(A, np.int32)
    assert (found.same, found.same_bytes, found.common, found.first) == (True, False, 6, None)
    assert found.same_tokenizer is None


@pytest.mark.parametrize(
    ("other", "common", "same_order", "differing", "where"),
    [
        ([*A[:3], [6, 6], *A[4:]], 5, True, 1, (3, 1, None, 6)),
        ([[1, 9, 3], *A[1:]], 5, True, 1, (0, 1, 2, 9)),
        ([[1, 2], *A[1:]], 5, True, 1, (0, 2, 3, None)),
        (A[:4], 4, True, 2, (4, None, None, None)),
        (A[1:], 5, True, 6, (0, 0, 1, 4)),
        ([A[5], *A[1:5], A[0]], 6, False, 2, (0, 0, 1, 7)),
        ([[3, 2, 1], *A[1:]], 5, True, 1, (0, 0, 1, 3)),
        ([], 0, True, 6, (0, None, None, None)),
    ],
)
def test_the_first_difference_and_how_many_there_are_is_said(
    compare: Callable[..., PairDifference],
    other: Documents,
    common: int,
    same_order: bool,
    differing: int,
    where: tuple[int, int | None, int | None, int | None],
) -> None:
    found = compare(other)
    assert not found.same
    assert (found.common, found.same_order, found.differing) == (common, same_order, differing)
    assert found.first is not None
    assert (found.first.document, found.first.token, found.first.left, found.first.right) == where


def test_another_division_into_sequences_is_a_difference(tmp_path: Path, write: Callable[..., str]) -> None:
    found = compare_pairs(write(tmp_path / "a", [[[1, 2], [3]]]), write(tmp_path / "b", [[[1], [2, 3]]]))
    assert (found.same, found.same_sequences, found.differing) == (False, False, 0)


def test_another_tokenizer_is_a_difference_and_named(original: Pair, copy: Pair) -> None:
    metadata = read_metadata(copy.prefix)
    assert metadata is not None
    other = replace(metadata.tokenizer, files={"tokenizer.json": "0" * 64})
    write_metadata(copy.prefix, replace(metadata, tokenizer=other, eod_id=7))
    found = compare_pairs(original.prefix, copy.prefix)
    assert (found.same, found.same_bytes, found.same_tokenizer) == (False, True, False)
    assert found.tokenizers[2:] == ("EOD id: 0 and 7", "content of its files")


def test_processes_find_the_same_and_sources_are_named(original: Pair, copy: Pair) -> None:
    copy.bin[copy.index.sequence_pointers[5_000]] ^= 1
    here = compare_pairs(original.prefix, copy.prefix)
    assert here.first is not None
    assert (here.differing, here.common, here.first.token) == (1, 9_999, 0)
    assert here.first.left_source == f"{original.folder / 'raw.jsonl'}:{here.first.document + 1}"
    there = compare_pairs(original.prefix, copy.prefix, run=partial(map_ordered, TaskWorker, workers=2))
    assert there == here


def test_a_damaged_pair_is_not_compared(original: Pair, copy: Pair) -> None:
    copy.array("lengths")[0] += 1
    with pytest.raises(DataError):
        compare_pairs(original.prefix, copy.prefix)


@given(st.lists(st.lists(st.integers(-3, 3), max_size=4), max_size=12))
def test_digests_are_equal_where_documents_are(documents: list[list[int]]) -> None:
    def digests(dtype: type) -> list[int]:
        return document_digests(
            DocumentBatch(
                first=0,
                tokens=np.array([token for document in documents for token in document], dtype),
                lengths=np.array([len(document) for document in documents], np.int32),
                sequences=np.ones(len(documents), np.int64),
                modes=None,
            )
        ).tolist()

    found = digests(np.int32)
    assert found == digests(np.int64)
    assert [found.index(digest) for digest in found] == [documents.index(document) for document in documents]
