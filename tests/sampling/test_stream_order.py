from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mindformers_megatron.sampling.stream_order import StreamOrder

orders = st.builds(
    StreamOrder,
    begin=st.integers(0, 1000),
    num_tokens=st.integers(1, 3000),
    seq_length=st.integers(1, 200),
    stride=st.integers(1, 300),
    seed=st.integers(0, 2**32),
    name=st.sampled_from(["wiki", "code", "中文"]),
    shuffle=st.sampled_from(["true", "false", "block"]),
    block=st.integers(1, 20),
    offsets=st.booleans(),
)
classic = orders.map(lambda order: replace(order, stride=order.seq_length))


def epoch(order: StreamOrder, number: int) -> np.ndarray:
    return np.arange(order.epoch_length) + number * order.epoch_length


def rows_of(order: StreamOrder, cursors: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The token positions of each sample, int64[B, L + 1], put together piece by piece."""
    pieces = order.pieces(cursors)
    rows = np.full((cursors.size, order.seq_length + 1), -1)
    for row, column, start, length in zip(pieces.row, pieces.column, pieces.start, pieces.length, strict=True):
        assert (rows[row, column : column + length] == -1).all()
        rows[row, column : column + length] = np.arange(start, start + length)
    return rows, pieces.counted


@given(order=classic, number=st.integers(0, 50))
def test_every_token_is_an_input_that_counts_exactly_once_per_epoch(order: StreamOrder, number: int) -> None:
    rows, counted = rows_of(order, epoch(order, number))
    inputs = rows[:, :-1][np.arange(order.seq_length) < counted[:, None]]
    assert np.array_equal(np.sort(inputs), order.begin + np.arange(order.num_tokens))


@given(order=orders, number=st.integers(0, 10**6))
def test_samples_are_full_rows_of_neighbours_on_the_circle(order: StreamOrder, number: int) -> None:
    rows, counted = rows_of(order, epoch(order, number)[:50])
    places = rows - order.begin
    assert ((places >= 0) & (places < order.num_tokens)).all()
    assert np.array_equal(places[:, 1:], (places[:, :-1] + 1) % order.num_tokens)
    assert ((counted >= 1) & (counted <= order.seq_length)).all()


@given(order=orders, cursors=st.lists(st.integers(0, 2**40), min_size=1, max_size=20))
def test_a_sample_does_not_depend_on_what_else_is_asked(order: StreamOrder, cursors: list[int]) -> None:
    together, counted = rows_of(order, np.array(cursors))
    for place, cursor in enumerate(cursors):
        alone, count = rows_of(order, np.array([cursor]))
        assert np.array_equal(alone[0], together[place])
        assert count[0] == counted[place]


@given(order=orders, epochs=st.integers(1, 4), data=st.data())
def test_the_samples_that_hold_a_token_are_found_without_reading_any(
    order: StreamOrder, epochs: int, data: st.DataObject
) -> None:
    begin = data.draw(st.integers(0, order.num_tokens - 1))
    end = data.draw(st.integers(begin + 1, order.num_tokens))
    rows, _ = rows_of(order, np.arange(epochs * order.epoch_length))
    places = rows - order.begin
    holding = np.flatnonzero(((places >= begin) & (places < end)).any(axis=1))
    assert np.array_equal(order.containing(order.begin + begin, order.begin + end, epochs), holding)


@given(order=orders, number=st.integers(0, 10**6))
def test_an_epoch_goes_through_every_window_once(order: StreamOrder, number: int) -> None:
    epochs, windows = order.window(epoch(order, number))
    assert (epochs == number).all()
    assert np.array_equal(np.sort(windows), np.arange(order.epoch_length))


@given(order=orders)
def test_the_first_epoch_cuts_the_corpus_from_its_first_token(order: StreamOrder) -> None:
    assert order.offset(np.array([0])) == 0


ORDER = StreamOrder(begin=0, num_tokens=100_000, seq_length=64, stride=64, seed=1, name="wiki")


def test_later_epochs_cut_elsewhere_unless_told_not_to() -> None:
    offsets = ORDER.offset(np.arange(1000))
    assert ((offsets >= 0) & (offsets < 64)).all()
    assert np.unique(offsets).size == 64
    assert not replace(ORDER, offsets=False).offset(np.arange(1000)).any()


def test_without_shuffle_windows_come_in_file_order() -> None:
    rows, _ = rows_of(replace(ORDER, shuffle="false"), np.arange(5))
    assert rows[:, 0].tolist() == [0, 64, 128, 192, 256]


def test_shuffled_epochs_differ_from_each_other_and_between_corpora_and_seeds() -> None:
    length = ORDER.epoch_length
    first, second = ORDER.window(epoch(ORDER, 0))[1], ORDER.window(epoch(ORDER, 1))[1]
    others = [first, second, replace(ORDER, name="code").window(epoch(ORDER, 0))[1]]
    others.append(replace(ORDER, seed=2).window(epoch(ORDER, 0))[1])
    others.append(np.arange(length))
    for place, one in enumerate(others):
        for other in others[place + 1 :]:
            assert np.mean(one == other) < 0.02


def test_block_shuffle_keeps_reads_near_each_other_and_still_moves_everything() -> None:
    order = replace(ORDER, shuffle="block", block=32)
    windows = order.window(epoch(order, 3))[1]
    runs = windows[: windows.size // 32 * 32].reshape(-1, 32)
    # A run is 32 neighbours on the circle of windows: sorted from the gap on, they are consecutive.
    for run in runs:
        steps = np.diff(np.sort(run))
        assert np.count_nonzero(steps != 1) <= 1
    assert np.mean(windows == np.arange(windows.size)) < 0.02
    assert np.mean(np.diff(np.sort(runs, axis=1)[:, 0]) == 32) < 0.2


@pytest.mark.parametrize("tokens", [1, 2, 5, 63, 64, 65, 66, 127, 128, 129])
def test_corpora_about_the_size_of_a_sample_work(tokens: int) -> None:
    order = replace(ORDER, num_tokens=tokens)
    rows, counted = rows_of(order, np.arange(4))
    assert rows.shape == (4, 65)
    assert counted.sum() >= min(tokens, 64)


def test_the_millionth_epoch_costs_what_the_first_does_and_is_exact() -> None:
    order = replace(ORDER, num_tokens=13_000_000_000, seq_length=4096, stride=4096)
    rows, _ = rows_of(order, np.array([10**12, 2**50]))
    assert np.array_equal(np.diff(rows % order.num_tokens), np.ones((2, 4096)))
