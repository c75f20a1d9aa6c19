"""Boundaries and columns against a reference that walks token by token."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mindformers_megatron.sampling.boundaries import eod_marks, join_segments, segments_of
from mindformers_megatron.sampling.columns import COLUMNS, ColumnOptions
from mindformers_megatron.sampling.layout import Layout, ReadTokens

EOD = 0


@st.composite
def batches(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rows, length = draw(st.integers(1, 4)), draw(st.integers(1, 24))
    tokens = draw(st.lists(st.integers(0, 4), min_size=rows * (length + 1), max_size=rows * (length + 1)))
    flags = draw(st.lists(st.booleans(), min_size=rows * (length + 1), max_size=rows * (length + 1)))
    counted = draw(st.lists(st.integers(1, length), min_size=rows, max_size=rows))
    boundaries = np.array(flags).reshape(rows, length + 1)
    boundaries[:, 0] = False
    return np.array(tokens, dtype=np.int32).reshape(rows, length + 1), boundaries, np.array(counted)


def numbered(flags: np.ndarray) -> list[int]:
    segment, result = 0, []
    for flag in flags:
        segment += bool(flag)
        result.append(segment)
    return result


def expected_loss(kind: str, tokens: np.ndarray, flags: np.ndarray, counted: int) -> list[int]:
    length = len(tokens) - 1
    segment = numbered(flags)
    own_label = [segment[t] == segment[t + 1] for t in range(length)]
    counts = [t < counted for t in range(length)]
    if kind == "eod":
        mask = [counts[t] and tokens[t] != EOD for t in range(length)]
    elif kind == "boundary":
        mask = [counts[t] and own_label[t] for t in range(length)]
    elif kind == "first_document":
        learnable = [segment[t] for t in range(length) if counts[t] and own_label[t]]
        mask = [counts[t] and own_label[t] and segment[t] == learnable[0] for t in range(length)]
    else:
        mask = counts
    return [int(value) for value in (mask if any(mask) else counts)]


def lay_out(tokens: np.ndarray, flags: np.ndarray, counted: np.ndarray, options: ColumnOptions) -> Layout:
    filled = np.full(len(tokens), tokens.shape[1])
    eods = eod_marks(tokens, EOD, filled)
    return Layout(ReadTokens(tokens), np.flatnonzero(flags), eods, counted, options, tokens.shape[1] - 1)


def masks_of(kind: str, tokens: np.ndarray, flags: np.ndarray, counted: np.ndarray) -> np.ndarray:
    options = ColumnOptions(names=("loss_mask",), loss_mask=kind)
    return lay_out(tokens, flags, counted, options).columns()["loss_mask"]


@given(batch=batches(), kind=st.sampled_from(["none", "eod", "boundary", "first_document"]))
def test_loss_masks_follow_the_documents(batch: tuple[np.ndarray, ...], kind: str) -> None:
    tokens, flags, counted = batch
    mask = masks_of(kind, tokens, flags, counted)
    for row in range(len(tokens)):
        assert mask[row].tolist() == expected_loss(kind, tokens[row], flags[row], counted[row])


@given(batch=batches(), kind=st.sampled_from(["none", "eod", "boundary", "first_document"]))
def test_no_sample_is_without_loss(batch: tuple[np.ndarray, ...], kind: str) -> None:
    tokens, flags, counted = batch
    assert masks_of(kind, tokens, flags, counted).any(axis=1).all()


@given(batch=batches(), width=st.integers(1, 30), reset=st.booleans())
def test_positions_segment_ends_and_dense_mask_tell_the_same_story(
    batch: tuple[np.ndarray, ...], width: int, reset: bool
) -> None:
    tokens, flags, counted = batch
    rows, length = len(tokens), tokens.shape[1] - 1
    options = ColumnOptions(
        names=("input_ids", "labels", "position_ids", "attention_mask", "actual_seq_len"),
        reset_position_ids=True,
        reset_attention_mask=reset,
        eod_pad_length=width,
    )
    layout = lay_out(tokens, flags, counted, options)
    columns = layout.columns()
    assert columns["actual_seq_len"].shape == (rows, width)
    assert columns["attention_mask"].shape == (rows, 1, length, length)
    assert all(column.dtype == np.int32 for column in columns.values())
    assert np.array_equal(columns["input_ids"][:, 1:], columns["labels"][:, :-1])
    lost = 0
    for row in range(rows):
        ends = columns["actual_seq_len"][row]
        distinct = np.unique(ends)
        # Cumulative ends of the segments, each once, and the sequence length as often as the width asks.
        assert np.array_equal(ends[: distinct.size], distinct)
        assert (ends[distinct.size - 1 :] == length).all()
        starts = np.concatenate(([0], distinct[:-1]))
        positions = np.concatenate([np.arange(size) for size in np.diff(distinct, prepend=0)])
        assert np.array_equal(columns["position_ids"][row], positions)
        lost += np.count_nonzero(flags[row, :-1]) + 1 - distinct.size
        assert set(starts.tolist()) <= {0, *np.flatnonzero(flags[row, :-1]).tolist()}
        segment = np.searchsorted(distinct, np.arange(length), side="right")
        for query in range(length):
            for key in range(length):
                seen = key <= query and (not reset or segment[key] == segment[query])
                assert columns["attention_mask"][row, 0, query, key] == (not seen)
    assert layout.joined == lost


def test_the_shortest_segments_join_the_one_before_them() -> None:
    segments = np.array([0, 5, 7, 12, 13, 20, 25])
    kept, joined = join_segments(segments, 2, 20, 3)
    assert kept.tolist() == [0, 7, 13, 20, 25]
    assert joined == 2


@pytest.mark.parametrize("most", [1, 2, 5, 100])
def test_no_row_has_more_segments_than_the_table_of_ends_holds(most: int) -> None:
    flags = np.random.default_rng(0).random((8, 65)) < 0.5
    flags[:, 0] = False
    segments = segments_of(np.flatnonzero(flags), 8, 64)
    kept, joined = join_segments(segments, 8, 64, most)
    assert (np.bincount(kept // 64) <= most).all()
    assert set(kept.tolist()) <= set(segments.tolist())
    assert set(range(0, 512, 64)) <= set(kept.tolist())
    assert joined == segments.size - kept.size


@given(
    batch=batches(),
    kind=st.sampled_from(["none", "eod", "boundary", "first_document"]),
    resets=st.tuples(st.booleans(), st.booleans()),
    data=st.data(),
)
def test_some_rows_are_those_of_the_batch(
    batch: tuple[np.ndarray, ...], kind: str, resets: tuple[bool, bool], data: st.DataObject
) -> None:
    options = ColumnOptions(
        names=COLUMNS, loss_mask=kind, reset_position_ids=resets[0], reset_attention_mask=resets[1], eod_pad_length=3
    )
    layout = lay_out(*batch, options)
    columns = layout.columns()
    first = data.draw(st.integers(0, len(layout)))
    behind = data.draw(st.integers(first, len(layout)))
    for name, column in layout.columns(first, behind).items():
        assert column.dtype == columns[name].dtype == np.int32
        assert np.array_equal(column, columns[name][first:behind])


def test_what_batches_share_cannot_be_written_to() -> None:
    tokens, flags = np.arange(18, dtype=np.int32).reshape(2, 9), np.zeros((2, 9), np.bool_)
    layout = lay_out(tokens, flags, np.array([8, 8]), ColumnOptions(names=COLUMNS[2:5]))
    for column in layout.columns().values():
        with pytest.raises(ValueError, match="read-only"):
            column[..., 0] = 7


def test_eod_tokens_make_boundaries_behind_them() -> None:
    tokens = np.array([[EOD, 5, EOD, EOD, 6, EOD], [1, 2, 3, 4, EOD, 6]], dtype=np.int32)
    assert eod_marks(tokens, EOD, np.array([6, 6])).tolist() == [1, 3, 4, 11]


def test_padding_that_is_the_eod_token_makes_none() -> None:
    tokens = np.array([[1, EOD, 2, EOD, EOD, EOD], [EOD] * 6], dtype=np.int32)
    assert eod_marks(tokens, EOD, np.array([4, 1])).tolist() == [2, 4, 7]
