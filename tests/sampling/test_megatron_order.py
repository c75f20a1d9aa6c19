import pickle
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from megatron_reference import index_of, reference_order, reference_sample

from mindformers_megatron.errors import ConfigError, DataError
from mindformers_megatron.sampling import megatron_indices
from mindformers_megatron.sampling.megatron_indices import build_sample_index, count_epochs
from mindformers_megatron.sampling.megatron_order import MegatronOrder

# Many empty and tiny sequences, a few that span several samples.
lengths_of_a_corpus = st.lists(
    st.one_of(st.integers(0, 3), st.integers(0, 40), st.integers(100, 300)), min_size=1, max_size=60
)
settings_of_an_order = st.fixed_dictionaries(
    {
        "num_samples": st.one_of(st.none(), st.integers(0, 200)),
        "seq_length": st.integers(2, 50),
        "seed": st.integers(0, 2**32 - 1),
        "extra_token": st.booleans(),
        "drop_last": st.booleans(),
    }
)


def fits(lengths: Sequence[int], begin: int, end: int, options: dict) -> bool:
    extra, tokens = int(options["extra_token"]), sum(lengths[begin:end])
    if tokens < 2:
        return False
    return tokens - extra >= (options["seq_length"] if options["drop_last"] else 1)


def built(lengths: Sequence[int], begin: int, end: int, **options: object) -> MegatronOrder:
    return MegatronOrder.build(index_of(lengths), begin, end, **options)  # type: ignore[arg-type]


@given(lengths=lengths_of_a_corpus, data=st.data(), options=settings_of_an_order)
def test_the_three_indices_are_those_of_the_walk_along_the_documents(
    lengths: list[int], data: st.DataObject, options: dict
) -> None:
    begin = data.draw(st.integers(0, len(lengths) - 1))
    end = data.draw(st.integers(begin + 1, len(lengths)))
    if not fits(lengths, begin, end, options):
        return
    order = built(lengths, begin, end, **options)
    documents, samples, shuffle, epochs = reference_order(lengths, begin, end, **options)
    assert order.document_index.dtype == np.int32
    assert order.sample_index.dtype == np.int32
    assert order.shuffle_index.dtype == np.uint32
    assert order.document_index.tolist() == documents
    assert order.sample_index.tolist() == [list(row) for row in samples]
    assert order.shuffle_index.tolist() == shuffle
    assert order.epochs == epochs


@given(lengths=lengths_of_a_corpus, options=settings_of_an_order)
def test_pieces_are_the_tokens_between_two_entries_of_the_sample_index(lengths: list[int], options: dict) -> None:
    if not fits(lengths, 0, len(lengths), options):
        return
    order = built(lengths, 0, len(lengths), **options)
    stream = np.arange(sum(lengths))
    starts = (np.cumsum(lengths) - lengths).tolist()
    width = options["seq_length"] + int(options["extra_token"])
    pieces = order.pieces(np.arange(len(order), dtype=np.int64))
    assert (pieces.length >= 1).all()
    rows: list[list[int]] = [[] for _ in range(len(order))]
    for row, column, start, length in zip(pieces.row, pieces.column, pieces.start, pieces.length, strict=True):
        assert column == len(rows[row])
        rows[row] += stream[start : start + length].tolist()
    samples = [tuple(row) for row in order.sample_index.tolist()]
    for k, sample in enumerate(order.shuffle_index.tolist()):
        expected = reference_sample(
            stream,
            starts,
            lengths,
            order.document_index.tolist(),
            samples[sample],
            samples[sample + 1],
            int(options["extra_token"]),
        )
        assert rows[k] == expected
        assert len(rows[k]) == width or (not options["drop_last"] and sample == len(order) - 1)
        assert pieces.counted[k] == len(rows[k]) - 1


@given(lengths=lengths_of_a_corpus, options=settings_of_an_order, cursors=st.lists(st.integers(0, 10**6), max_size=9))
def test_a_sample_does_not_depend_on_what_else_is_asked(lengths: list[int], options: dict, cursors: list[int]) -> None:
    if not fits(lengths, 0, len(lengths), options):
        return
    order = built(lengths, 0, len(lengths), **options)
    asked = np.array([cursor % len(order) for cursor in cursors], dtype=np.int64)
    together = order.pieces(asked)
    for row, cursor in enumerate(asked):
        alone, mine = order.pieces(np.array([cursor])), together.row == row
        assert np.array_equal(alone.start, together.start[mine])
        assert np.array_equal(alone.column, together.column[mine])
        assert np.array_equal(alone.length, together.length[mine])
        assert alone.counted[0] == together.counted[row]


@given(lengths=lengths_of_a_corpus, chunk=st.integers(1, 7), seq_length=st.integers(2, 30), extra=st.booleans())
def test_the_size_of_the_chunks_does_not_show(lengths: list[int], chunk: int, seq_length: int, extra: bool) -> None:
    tokens = sum(lengths) - int(extra)
    if tokens < seq_length:
        return
    sizes, documents = np.array(lengths, dtype=np.int32), np.arange(len(lengths), dtype=np.int32)
    count = tokens // seq_length
    whole = build_sample_index(sizes, 0, documents, count, seq_length=seq_length, extra_token=extra)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(megatron_indices, "_CHUNK", chunk)
        cut = build_sample_index(sizes, 0, documents, count, seq_length=seq_length, extra_token=extra)
    assert np.array_equal(whole, cut)


@given(
    tokens=st.integers(1, 10**6),
    num_samples=st.integers(1, 10**7),
    seq_length=st.integers(2, 5000),
    extra=st.booleans(),
)
@example(tokens=1, num_samples=10**7, seq_length=4096, extra=True)
def test_epochs_are_as_few_as_give_the_samples(tokens: int, num_samples: int, seq_length: int, extra: bool) -> None:
    epochs = count_epochs(tokens, num_samples, seq_length=seq_length, extra_token=extra, drop_last=True)
    wanted = num_samples * seq_length + int(extra)
    assert epochs.epochs * tokens >= wanted
    assert epochs.epochs == 1 or (epochs.epochs - 1) * tokens < wanted
    assert epochs.num_samples >= num_samples
    assert 0 <= epochs.shuffled_first <= epochs.num_samples


def test_the_partial_sample_is_counted_in_float32_as_megatron_does_up_to_where_megatron_aborts() -> None:
    def count(tokens: int, seq_length: int) -> int:
        return count_epochs(tokens, None, seq_length=seq_length, extra_token=True, drop_last=False).num_samples

    assert count(20_000_002, 1000) == 20_000  # truly 20,001; the one that Megatron loses is lost here too
    assert count(16_777_222, 2) == 8_388_610  # truly 8,388,611
    assert count(33_554_439, 2) == 16_777_220  # truly 16,777,219; one without anything to predict
    assert count(2**31 + 130, 2) == 2**30 + 65  # float32 says 2**30 + 128, and Megatron aborts
    assert count(1001, 1000) == 1
    assert count(1002, 1000) == 2


def test_a_part_behind_the_first_sequence_keeps_the_numbers_of_the_whole() -> None:
    order = built([5, 9, 7, 30, 2, 8], 3, 6, num_samples=None, seq_length=4, seed=7)
    assert sorted(order.document_index.tolist()) == [3, 4, 5]
    assert order.pieces(np.arange(len(order))).start.min() >= 21


@pytest.mark.parametrize(
    ("lengths", "options", "error", "says"),
    [
        ([0, 0, 0], {}, DataError, "sequences 0 to 3 hold 0 tokens"),
        ([1], {}, DataError, "hold 1 tokens"),
        ([4, -1, 5], {}, DataError, "sequence 1 has a length of -1"),
        ([5, 3], {}, ConfigError, "hold 8 tokens, less than the 9 of one sample"),
        ([50], {"seq_length": 1}, ConfigError, "seq_length is 1"),
        ([50], {"seed": -1}, ConfigError, "seed is -1"),
        ([50], {"seed": 2**32}, ConfigError, "seed is 4294967296"),
        ([50], {"num_samples": -3}, ConfigError, "num_samples is -3"),
        ([50], {"begin": 1}, ConfigError, "sequences 1 to 1"),
        ([50], {"end": 2}, ConfigError, "it has 1"),
    ],
)
def test_what_megatron_hangs_or_aborts_on_is_refused_in_one_line(
    lengths: list[int], options: dict, error: type[Exception], says: str
) -> None:
    settings = {"begin": 0, "end": len(lengths), "num_samples": None, "seq_length": 8, "seed": 1} | options
    with pytest.raises(error, match=says) as caught:
        built(lengths, **settings)
    assert "\n" not in str(caught.value)


def test_samples_beyond_the_last_one_are_refused() -> None:
    order = built([100], 0, 1, num_samples=None, seq_length=10, seed=1)
    with pytest.raises(IndexError, match="has 9"):
        order.pieces(np.array([3, 9]))


def test_the_cache_gives_the_same_arrays_mapped_and_pickled_by_name(tmp_path: Path) -> None:
    lengths = list(range(1, 400))
    plain = built(lengths, 0, 399, num_samples=None, seq_length=16, seed=3)
    options = {"num_samples": None, "seq_length": 16, "seed": 3, "cache_dir": tmp_path}
    first, second = built(lengths, 0, 399, **options), built(lengths, 0, 399, **options)
    for order in (first, second, pickle.loads(pickle.dumps(second.arrays))):
        arrays = order if not isinstance(order, MegatronOrder) else order.arrays
        assert arrays.path is not None
        for name in ("document_index", "sample_index", "shuffle_index"):
            assert arrays[name].dtype == plain.arrays[name].dtype
            assert np.array_equal(arrays[name], plain.arrays[name])
            assert not arrays[name].flags.owndata
    assert len(pickle.dumps(second.arrays)) < 1000
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize(
    "change",
    [
        {"seed": 4},
        {"seq_length": 17},
        {"extra_token": False},
        {"drop_last": False},
        {"num_samples": 90},
        {"begin": 1},
        {"end": 39},
        {"lengths": [*range(1, 39), 40, 39]},
    ],
)
def test_whatever_changes_the_arrays_has_a_cache_of_its_own(tmp_path: Path, change: dict) -> None:
    settings = {
        "lengths": list(range(1, 41)),
        "begin": 0,
        "end": 40,
        "num_samples": None,
        "seq_length": 16,
        "seed": 3,
    }
    built(**settings, cache_dir=tmp_path)
    cached = built(**(settings | change), cache_dir=tmp_path)
    fresh = built(**(settings | change))
    for name in ("document_index", "sample_index", "shuffle_index"):
        assert np.array_equal(cached.arrays[name], fresh.arrays[name])
    assert len(list(tmp_path.iterdir())) == 2
