"""The plan over real files: what comes out of read() is what the files hold, whoever asks and however often."""

import json
import pickle
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from pairs import MakeCorpus

from mindformers_megatron import IndexedDataset, SamplePlan
from mindformers_megatron.errors import ConfigError, DataError

RNG = np.random.default_rng(11)


@pytest.fixture
def blend(make_corpus: MakeCorpus) -> list[str]:
    return [
        make_corpus("wiki", RNG.integers(1, 60, 120).tolist()),
        make_corpus("code", RNG.integers(1, 200, 30).tolist(), np.int32),
        make_corpus("chat", RNG.integers(1, 9, 50).tolist()),
    ]


def build(paths: Sequence[str], **options: object) -> SamplePlan:
    return SamplePlan.build(paths, **{"seq_length": 32, "dataset_weights": [0.5, 0.3, 0.2], "seed": 7, **options})


def test_rows_are_the_tokens_of_the_stream(blend: list[str]) -> None:
    plan = build(blend)
    batch = plan.read(np.arange(200))
    corpora, _ = plan.locate(np.arange(200))
    for row, corpus in enumerate(corpora.tolist()):
        dataset = IndexedDataset(blend[corpus])
        circle = dataset.tokens(0, dataset.num_tokens).astype(np.int32)
        window = np.append(batch["input_ids"][row], batch["labels"][row, -1])
        turns = np.concatenate([circle] * (2 + len(window) // len(circle)))
        starts = np.flatnonzero(turns[: len(circle)] == window[0])
        assert any(np.array_equal(turns[start : start + len(window)], window) for start in starts)


def test_sample_i_is_the_same_alone_in_a_batch_in_a_slice_in_threads_and_after_pickling(blend: list[str]) -> None:
    plan = build(blend, loss_mask="boundary", reset_position_ids=True)
    whole = plan.read(np.arange(64))
    copy = pickle.loads(pickle.dumps(plan))
    shuffled = np.random.default_rng(0).permutation(64)
    mixed = copy.read(shuffled)
    with ThreadPoolExecutor(4) as pool:
        alone = list(pool.map(plan.__getitem__, range(64)))
    for i in range(64):
        for name, column in whole.items():
            assert np.array_equal(alone[i][name], column[i])
            assert np.array_equal(plan[i : i + 1][0][name], column[i])
            assert np.array_equal(mixed[name][shuffled.tolist().index(i)], column[i])
    assert copy.fingerprint == plan.fingerprint


def test_boundaries_come_from_the_index_and_agree_with_a_walk(make_corpus: MakeCorpus) -> None:
    lengths = [1, 1, 5, 0, 9, 0, 0, 33, 2, 64, 1, 7]
    path = make_corpus("wiki", lengths)
    plan = SamplePlan.build(
        path, seq_length=16, shuffle=False, loss_mask="boundary", reset_position_ids=True, epoch_offsets=False
    )
    total = sum(lengths)
    starts = {0, *np.cumsum(lengths).tolist()} - {total}
    for k in range(plan.num_samples + 1):
        row = plan.read(np.array([k]))
        places = [(k * 16 + t) % total for t in range(17)]
        position = 0
        for t in range(16):
            position = 0 if t and places[t] in starts else position + bool(t)
            assert row["position_ids"][0, t] == position
        fresh = [t for t in range(16) if k * 16 + t < total]
        expected = [int(t in fresh and places[t + 1] not in starts) for t in range(16)]
        assert row["loss_mask"][0].tolist() == (expected if any(expected) else [int(t in fresh) for t in range(16)])


def test_documents_of_several_sequences_are_not_cut_between_them(tmp_path: Path) -> None:
    from mindformers_megatron import IndexedDatasetWriter

    with IndexedDatasetWriter(str(tmp_path / "sentences"), np.dtype(np.uint16)) as writer:
        writer.add_document(np.arange(1, 11, dtype=np.uint16), [3, 4, 3])
        writer.add_document(np.arange(11, 17, dtype=np.uint16), [6])
    plan = SamplePlan.build(tmp_path / "sentences", seq_length=15, shuffle=False, loss_mask="boundary")
    assert np.flatnonzero(plan[0]["loss_mask"] == 0).tolist() == [9]


def test_boundaries_by_eod_tokens_are_megatrons(make_corpus: MakeCorpus) -> None:
    path = make_corpus("wiki", [[5, 6, 0, 7, 0], [8, 9, 3, 0]])
    plan = SamplePlan.build(
        path, seq_length=8, shuffle=False, boundaries="eod", eod_id=0, loss_mask="eod", reset_position_ids=True
    )
    assert plan[0]["position_ids"].tolist() == [0, 1, 2, 0, 1, 0, 1, 2]
    assert plan[0]["loss_mask"].tolist() == [1, 1, 0, 1, 0, 1, 1, 1]


def test_shares_hold_in_every_prefix(blend: list[str]) -> None:
    plan = build(blend)
    corpora, _ = plan.locate(np.arange(100_000))
    for prefix in (10, 1000, 12_345, 100_000):
        counts = np.bincount(corpora[:prefix], minlength=3)
        assert np.abs(counts - prefix * np.array([0.5, 0.3, 0.2])).max() < 1.5


def test_a_small_corpus_goes_round_silently(blend: list[str]) -> None:
    plan = build(blend)
    chat = plan.table()[2]
    far = 10_000_000
    assert plan.read(np.arange(far, far + 50))["input_ids"].shape == (50, 32)
    assert plan.state(far).corpora[2].epoch == int(far * 0.2) // -(-chat.tokens // 32)


def test_adding_a_corpus_reshuffles_no_other(blend: list[str], make_corpus: MakeCorpus) -> None:
    before = build(blend)
    after = build([*blend, make_corpus("math", [50, 60, 70])], dataset_weights=[0.4, 0.3, 0.2, 0.1])
    for corpus in range(3):
        rows = []
        for plan in (before, after):
            corpora, cursors = plan.locate(np.arange(400))
            samples = np.flatnonzero(corpora == corpus)[:40]
            assert np.array_equal(cursors[samples], np.arange(40))
            rows.append(plan.read(samples)["input_ids"])
        assert np.array_equal(*rows)


def test_the_table_shows_what_is_in_force(blend: list[str]) -> None:
    plan = build(blend, num_samples=1000)
    table = plan.table()
    assert [row.name for row in table] == ["wiki", "code", "chat"]
    assert [row.share for row in table] == [0.5, 0.3, 0.2]
    assert [row.samples for row in table] == [500, 300, 200]
    assert all(row.epochs == row.samples / -(-row.tokens // 32) for row in table)


def test_the_state_is_small_and_leads_back_to_the_plan(blend: list[str]) -> None:
    from mindformers_megatron.sampling.state import DataState

    plan = build(blend)
    text = plan.state(123_456).to_json()
    assert len(text) < 1024
    state = DataState.from_json(text)
    assert state == plan.state(123_456)
    assert [corpus.cursor for corpus in state.corpora] == plan.schedule.cursors(123_456).tolist()
    resumed = build(blend, loss_mask="boundary", columns=["input_ids", "labels"]).resumed(state)
    assert resumed.fingerprint == plan.fingerprint


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"seq_length": 64}, "seq_length = 32, this run has 64"),
        ({"seed": 8}, "seed = 7, this run has 8"),
        ({"dataset_weights": [0.4, 0.4, 0.2]}, "share of wiki = 0.5, this run has 0.4"),
        ({"shuffle": False}, "shuffle = 'true', this run has 'false'"),
        ({"dataset_names": ["wiki", "code", "talk"]}, "share of chat = 0.2, this run has .*not in the blend"),
    ],
)
def test_a_changed_plan_is_refused_with_field_and_both_values(
    blend: list[str], change: dict[str, object], says: str
) -> None:
    with pytest.raises(ConfigError, match=says) as raised:
        build(blend, **change).resumed(build(blend).state(100))
    assert "\n" not in str(raised.value)


def test_changed_files_are_refused(blend: list[str]) -> None:
    state = build(blend).state(100)
    path = Path(blend[0] + ".bin")
    data = bytearray(path.read_bytes())
    data[10] ^= 1
    path.write_bytes(data)
    with pytest.raises(ConfigError, match="fingerprint of corpus wiki"):
        build(blend).resumed(state)


def mutilated(text: str) -> list[tuple[str, str]]:
    body = json.loads(text)
    later = {**body, "version": 99}
    other = {**body, "format": "somebody else's"}
    edited = {**body, "plan": {**body["plan"], "seed": 8}}
    missing = {name: value for name, value in body.items() if name != "corpora"}
    wrong = {**body, "consumed_samples": "many"}
    negative = {**body, "consumed_samples": -1}
    return [
        (text[: len(text) // 2], "cut short"),
        ("", "not JSON"),
        ("[]", "not a data state"),
        (json.dumps(later), "version 99"),
        (json.dumps(other), "not a data state"),
        (json.dumps(edited), "fingerprint"),
        (json.dumps(missing), "incomplete"),
        (json.dumps(wrong), "consumed_samples is 'many'"),
        (json.dumps(negative), "edited or damaged"),
    ]


def test_damaged_and_foreign_states_are_refused_in_one_line(blend: list[str], tmp_path: Path) -> None:
    from mindformers_megatron.sampling.state import DataState

    for text, says in mutilated(build(blend).state(100).to_json()):
        (tmp_path / "state.json").write_text(text)
        with pytest.raises(DataError, match=says) as raised:
            DataState.load(tmp_path / "state.json")
        assert "\n" not in str(raised.value)
        assert "state.json" in str(raised.value)
    with pytest.raises(DataError, match=r"nothing\.json"):
        DataState.load(tmp_path / "nothing.json")


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"seq_lenght": 5}, "did you mean seq_length"),
        ({"seq_length": 0}, "seq_length is 0"),
        ({"seq_length": "2048"}, "seq_length is '2048'"),
        ({"shuffle": "random"}, "shuffle is 'random'; expected one of: true, false, block"),
        ({"columns": ["input_ids", "tokens"]}, "tokens"),
        ({"dataset_weights": [0.5, 0.5]}, "2 entries for 3 corpora"),
        ({"dataset_weights": [0.5, -0.5, 1]}, "-0.5"),
        ({"loss_mask": "eod"}, "eod_id is needed"),
        ({"boundaries": "eod"}, "eod_id is needed"),
        ({"stride": 0}, "stride is 0"),
        ({"temperature": 0}, "temperature is 0"),
    ],
)
def test_wrong_options_are_refused_in_one_line(blend: list[str], options: dict[str, object], says: str) -> None:
    with pytest.raises(ConfigError, match=says) as raised:
        build(blend, **options)
    assert "\n" not in str(raised.value)


def test_corpora_that_cannot_be_read_are_refused_in_one_line(blend: list[str], make_corpus: MakeCorpus) -> None:
    with pytest.raises(DataError, match="nowhere"):
        build([*blend[:2], "/nowhere/chat.bin"])
    with pytest.raises(DataError, match="holds no token"):
        build([*blend[:2], make_corpus("empty", [])])
    with pytest.raises(ConfigError, match="twice"):
        build([*blend[:2], blend[0] + ".idx"])
    with pytest.raises(ConfigError, match="dataset_dir is empty"):
        build([], dataset_weights=None)


def test_corpora_of_the_same_name_are_told_apart_by_their_folders(tmp_path: Path) -> None:
    from pairs import write_corpus

    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        write_corpus(tmp_path / folder / "text_document", [[1, 2, 3]])
    plan = SamplePlan.build([tmp_path / "a/text_document", tmp_path / "b/text_document.bin"], seq_length=4)
    assert list(plan.names) == ["a/text_document", "b/text_document"]


def test_samples_beyond_the_plan_are_out_of_range_by_index_but_can_be_read(blend: list[str]) -> None:
    plan = build(blend, num_samples=10)
    assert len(plan) == 10
    assert len(list(plan)) == 10
    assert np.array_equal(plan[-1]["input_ids"], plan[9]["input_ids"])
    with pytest.raises(IndexError, match="sample 10 of a plan of 10"):
        plan[10]
    with pytest.raises(IndexError, match="start at 0"):
        plan.read(np.array([-1]))
    assert plan.read(np.array([10]))["input_ids"].shape == (1, 32)


def test_where_tokens_were_seen_is_known_without_reading_a_sample(blend: list[str]) -> None:
    plan = build(blend, skip_samples=[[30, 60]], weight_schedule=[{"from_sample": 200, "weights": [0.1, 0.1, 0.8]}])
    until = 500
    numbers, cursors = plan.locate(np.arange(until))
    for name, begin, end in (("wiki", 100, 130), ("code", 0, 1), ("chat", 17, 40)):
        mine = np.flatnonzero(numbers == plan.names.index(name))
        pieces = plan.pieces(name, cursors[mine])
        holding = np.unique(pieces.row[(pieces.start < end) & (pieces.start + pieces.length > begin)])
        assert plan.samples_holding(name, begin, end, until).tolist() == mine[holding].tolist()


@pytest.mark.parametrize("order", ["stream", "document", "megatron"])
def test_tokens_of_another_part_of_a_split_were_never_seen(blend: list[str], order: str) -> None:
    shared = {"order": order, "split": "80,20,0", "num_samples": 200}
    train, valid = build(blend, **shared), build(blend, **shared, split_part="valid")
    until = train.end or 200
    numbers, cursors = train.locate(np.arange(until))
    for name, other in valid.corpora.items():
        begin, end = other.begin, other.begin + other.num_tokens
        assert train.samples_holding(name, begin, end, until).size == 0
        # Across the edge, only what lies on this side counts.
        edge = begin - 3
        mine = np.flatnonzero(numbers == train.names.index(name))
        pieces = train.pieces(name, cursors[mine])
        holding = np.unique(pieces.row[(pieces.start < begin) & (pieces.start + pieces.length > edge)])
        assert train.samples_holding(name, edge, end, until).tolist() == mine[holding].tolist()
        assert holding.size


def test_corpora_of_different_types_of_tokens_are_read_into_the_same_rows(make_corpus: MakeCorpus) -> None:
    lengths = [7, 30, 1, 90]
    narrow = make_corpus("narrow", lengths, np.uint16)
    wide = make_corpus("wide", lengths, np.int32)
    for options in ({}, {"order": "document"}):
        alone = SamplePlan.build([narrow], dataset_names=["a"], seq_length=16, **options).read(np.arange(40))
        both = SamplePlan.build(
            [narrow, wide], dataset_names=["a", "b"], dataset_weights=[1, 1], seq_length=16, **options
        )
        numbers, cursors = both.locate(np.arange(80))
        read = both.read(np.arange(80))
        # The same tokens under another type and another name; so each corpus alone is what its rows are.
        mine = numbers == 0
        assert np.array_equal(read["input_ids"][mine], alone["input_ids"][cursors[mine]])
        other = SamplePlan.build([wide], dataset_names=["b"], seq_length=16, **options).read(np.arange(40))
        assert np.array_equal(read["input_ids"][~mine], other["input_ids"][cursors[~mine]])
