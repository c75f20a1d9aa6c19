"""Document order: documents that fit a sample are never cut, every label is predicted once per epoch, any i at once."""

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pairs import MakeCorpus, write_corpus

from mindformers_megatron import SamplePlan
from mindformers_megatron.errors import DataError
from mindformers_megatron.format.reader import IndexedDataset
from mindformers_megatron.sampling.document_order import DocumentOrder


def order_over(lengths: list[int], folder: Path, seq_length: int, shuffle: bool) -> DocumentOrder:
    documents = [[7] * length for length in lengths]
    index = IndexedDataset(write_corpus(folder / "wiki", documents)).index
    return DocumentOrder.build(index, 0, len(lengths), seq_length=seq_length, seed=3, name="wiki", shuffle=shuffle)


def rows_of(order: DocumentOrder, cursors: np.ndarray) -> list[list[tuple[int, int]]]:
    """Per sample its pieces as (first token, length)."""
    pieces = order.pieces(cursors)
    rows: list[list[tuple[int, int]]] = [[] for _ in cursors]
    for row, column, start, length in zip(pieces.row, pieces.column, pieces.start, pieces.length, strict=True):
        assert column == sum(size for _, size in rows[row])
        rows[row].append((int(start), int(length)))
    for row, counted in zip(rows, pieces.counted.tolist(), strict=True):
        assert 1 <= counted == sum(size for _, size in row) - 1 <= order.seq_length
    return rows


@settings(max_examples=30)
@given(
    lengths=st.lists(st.integers(0, 60), min_size=1, max_size=40).filter(lambda lengths: max(lengths) > 1),
    seq_length=st.integers(1, 24),
    shuffle=st.booleans(),
    epoch=st.integers(0, 10**6),
)
def test_every_label_of_every_document_is_predicted_exactly_once_per_epoch(
    tmp_path_factory: pytest.TempPathFactory, lengths: list[int], seq_length: int, shuffle: bool, epoch: int
) -> None:
    order = order_over(lengths, tmp_path_factory.mktemp("corpus"), seq_length, shuffle)
    rows = rows_of(order, epoch * order.epoch_length + np.arange(order.epoch_length))
    predicted = Counter(start + place for row in rows for start, size in row for place in range(1, size))
    starts = np.concatenate(([0], np.cumsum(lengths)))[:-1].tolist()
    labels = [start + place for start, length in zip(starts, lengths, strict=True) for place in range(1, length)]
    assert predicted == Counter(labels)
    assert order.num_tokens == len(labels)


@settings(max_examples=30)
@given(
    lengths=st.lists(st.integers(0, 60), min_size=1, max_size=40).filter(lambda lengths: max(lengths) > 1),
    seq_length=st.integers(1, 24),
)
def test_no_document_that_fits_a_sample_is_cut(
    tmp_path_factory: pytest.TempPathFactory, lengths: list[int], seq_length: int
) -> None:
    order = order_over(lengths, tmp_path_factory.mktemp("corpus"), seq_length, True)
    whole = {piece for row in rows_of(order, np.arange(order.epoch_length)) for piece in row}
    start = 0
    for length in lengths:
        if 2 <= length <= seq_length + 1:
            assert (start, length) in whole
        start += length


@settings(max_examples=30)
@given(
    lengths=st.lists(st.integers(2, 60), min_size=1, max_size=40),
    cursors=st.lists(st.integers(0, 2**40), min_size=1, max_size=20),
)
def test_a_sample_does_not_depend_on_what_else_is_asked(
    tmp_path_factory: pytest.TempPathFactory, lengths: list[int], cursors: list[int]
) -> None:
    order = order_over(lengths, tmp_path_factory.mktemp("corpus"), 16, True)
    together = rows_of(order, np.array(cursors))
    assert together == [rows_of(order, np.array([cursor]))[0] for cursor in cursors]


@settings(max_examples=30)
@given(
    lengths=st.lists(st.integers(0, 40), min_size=1, max_size=30).filter(lambda lengths: max(lengths) > 1),
    seq_length=st.integers(1, 24),
    shuffle=st.booleans(),
    data=st.data(),
)
def test_the_samples_that_hold_a_token_are_found_without_reading_any(
    tmp_path_factory: pytest.TempPathFactory, lengths: list[int], seq_length: int, shuffle: bool, data: st.DataObject
) -> None:
    order = order_over(lengths, tmp_path_factory.mktemp("corpus"), seq_length, shuffle)
    begin = data.draw(st.integers(0, sum(lengths) - 1))
    end = data.draw(st.integers(begin + 1, sum(lengths)))
    rows = rows_of(order, np.arange(2 * order.epoch_length))
    holding = [
        cursor for cursor, row in enumerate(rows) if any(start < end and start + size > begin for start, size in row)
    ]
    assert order.containing(begin, end, 2).tolist() == holding


def test_epochs_pack_other_documents_together(make_corpus: MakeCorpus, tmp_path: Path) -> None:
    order = order_over([5] * 600, tmp_path, 16, True)
    first = {tuple(row) for row in rows_of(order, np.arange(order.epoch_length))}
    second = {tuple(row) for row in rows_of(order, order.epoch_length + np.arange(order.epoch_length))}
    assert len(first & second) < len(first) / 10


def test_padding_has_no_loss_even_if_the_pad_id_is_the_eod_id(make_corpus: MakeCorpus) -> None:
    path = make_corpus("wiki", [[5, 6, 0], [7, 8, 9, 4, 3, 2, 0]])
    plan = SamplePlan.build(
        path,
        seq_length=11,
        order="document",
        shuffle=False,
        pad_id=0,
        eod_id=0,
        loss_mask="eod",
        reset_position_ids=True,
        columns=["input_ids", "labels", "loss_mask", "position_ids", "actual_seq_len"],
        eod_pad_length=4,
    )
    row = plan[0]
    assert row["input_ids"].tolist() == [7, 8, 9, 4, 3, 2, 0, 5, 6, 0, 0]
    assert row["labels"].tolist() == [8, 9, 4, 3, 2, 0, 5, 6, 0, 0, 0]
    assert row["loss_mask"].tolist() == [1, 1, 1, 1, 1, 1, 0, 1, 1, 0, 0]
    assert row["position_ids"].tolist() == [0, 1, 2, 3, 4, 5, 6, 0, 1, 2, 0]
    assert row["actual_seq_len"].tolist() == [7, 10, 11, 11]


def test_a_split_packs_its_own_documents_only(make_corpus: MakeCorpus) -> None:
    path = make_corpus("wiki", [[number] * 5 for number in range(1, 101)])
    seen = {}
    for part in ("train", "valid", "test"):
        plan = SamplePlan.build(path, seq_length=32, order="document", split="80,15,5", split_part=part)
        inputs = plan.read(np.arange(plan.num_samples * 3))["input_ids"]
        seen[part] = set(inputs.ravel().tolist()) - {0}
    assert seen == {"train": set(range(1, 81)), "valid": set(range(81, 96)), "test": set(range(96, 101))}


def test_documents_of_one_token_alone_are_refused(make_corpus: MakeCorpus) -> None:
    with pytest.raises(DataError, match="nothing to predict"):
        SamplePlan.build(make_corpus("wiki", [[1], [2]]), seq_length=8, order="document")
