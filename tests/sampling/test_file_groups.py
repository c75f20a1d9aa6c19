"""Files divided among groups of ranks: each opens its share, the mix is what was asked, and no token is read twice."""

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pairs import MakeCorpus, write_corpus

from mindformers_megatron import SamplePlan
from mindformers_megatron.errors import ConfigError, DataError
from mindformers_megatron.sampling.file_groups import share_files
from mindformers_megatron.sampling.grouped_plan import GroupedPlan, open_plan
from mindformers_megatron.sampling.shards import Shard
from mindformers_megatron.sampling.spec import PlanSpec
from mindformers_megatron.sampling.state import DataState

LENGTH, GROUPS = 8, 4
WEIGHTS = [0.4, 0.3, 0.1, 0.1, 0.05, 0.05]


@given(st.lists(st.integers(0, 1000), min_size=1, max_size=30).filter(any), st.integers(1, 40))
def test_shares_stay_exact_and_every_corpus_is_read_once(parts: list[int], groups: int) -> None:
    divided = share_files(parts, groups)
    total = sum(parts)
    assert [sum(share.parts for share in group) for group in divided] == [total] * groups
    assert sum(map(len, divided)) <= sum(part > 0 for part in parts) + groups - 1
    for corpus, part in enumerate(parts):
        pieces = [share for group in divided for share in group if share.corpus == corpus]
        assert sum(Fraction(piece.parts, total * groups) for piece in pieces) == Fraction(part, total)
        ends = [Fraction(0), *(piece.end for piece in pieces)]
        assert [piece.begin for piece in pieces] == ends[: len(pieces)]
        if part:
            assert ends[-1] == 1
            # A part of a corpus is as large as the share that is drawn from it.
            assert all(piece.end - piece.begin == Fraction(piece.parts, part * groups) for piece in pieces)


@pytest.fixture
def prefixes(tmp_path: Path) -> list[str]:
    """Corpora in which no token comes twice, each as large as its share."""
    first = 1
    made = []
    for place, weight in enumerate(WEIGHTS):
        documents = []
        for _ in range(int(400 * weight)):
            documents.append(list(range(first, first + 10)))
            first += 10
        made.append(write_corpus(tmp_path / f"corpus{place}", documents))
    return made


def spec_of(prefixes: list[str], **options: Any) -> PlanSpec:
    common = {"dataset_weights": WEIGHTS, "seq_length": LENGTH, "num_samples": 400, "shard_files": GROUPS, "seed": 3}
    return PlanSpec.from_options({"dataset_dir": prefixes, **common, **options})


def test_any_number_of_ranks_reads_the_same_samples(prefixes: list[str]) -> None:
    whole = open_plan(spec_of(prefixes)).read(np.arange(96))
    for ranks in (1, 2, 3, 4, 6, 8):
        for rank in range(ranks):
            plan = open_plan(spec_of(prefixes), Shard(rank, ranks))
            rows = plan.read(np.arange(rank, 96, ranks))
            for name, column in whole.items():
                assert np.array_equal(rows[name], column[rank::ranks]), (ranks, rank, name)


def test_each_rank_opens_the_files_of_its_groups_only(prefixes: list[str]) -> None:
    opened = [set(open_plan(spec_of(prefixes), Shard(rank, 4)).corpora) for rank in range(4)]
    assert opened[0] == {"corpus0"} and opened[3] == {"corpus2", "corpus3", "corpus4", "corpus5"}
    assert sum(map(len, opened)) <= len(prefixes) + GROUPS - 1
    for name in ("corpus0.bin", "corpus0.idx"):
        path = Path(prefixes[0]).with_name(name)
        path.write_bytes(bytes(path.stat().st_size))
    reading = open_plan(spec_of(prefixes), Shard(3, 4))
    reading.read(np.arange(3, 400, 4))
    with pytest.raises(DataError, match="corpus0"):
        open_plan(spec_of(prefixes), Shard(0, 4))


def test_the_mix_is_that_of_the_weights(prefixes: list[str]) -> None:
    plan = GroupedPlan(spec_of(prefixes))
    corpus, _ = plan.locate(np.arange(40_000))
    np.testing.assert_allclose(np.bincount(corpus) / 40_000, WEIGHTS, atol=1e-4)
    assert not plan.corpora, "locating opens nothing"
    first = plan.read(np.arange(80))["input_ids"][:, 0]
    begins = np.cumsum([0, *(int(400 * weight) * 10 for weight in WEIGHTS)])
    assert np.array_equal(np.searchsorted(begins, first, side="right") - 1, corpus[:80])


def test_in_one_epoch_every_token_is_an_input_at_most_once_and_nearly_all_are(prefixes: list[str]) -> None:
    plan = GroupedPlan(spec_of(prefixes, shuffle=False))
    tokens = plan.read(np.arange(480))["input_ids"].ravel()
    values, counts = np.unique(tokens, return_counts=True)
    assert counts.max() == 1
    assert values.size == 480 * LENGTH


def test_where_tokens_were_seen_is_known_across_groups(prefixes: list[str]) -> None:
    plan = GroupedPlan(spec_of(prefixes))
    until = 803
    rows = plan.read(np.arange(until))
    rows = np.concatenate([rows["input_ids"], rows["labels"][:, -1:]], axis=1)
    # The documents of corpus0 begin with tokens 1, 11, …; groups 0 and 1 divide them.
    for document in (0, 7, 99, 100, 101, 159):
        begin, end = document * 10, document * 10 + 10
        held = np.flatnonzero(((rows > begin) & (rows <= end)).any(axis=1))
        assert held.size
        assert plan.samples_holding("corpus0", begin, end, until).tolist() == held.tolist()
    assert plan.samples_holding("corpus5", 0, 1, 0).size == 0


def test_a_run_goes_on_from_its_state_and_any_change_is_refused(prefixes: list[str]) -> None:
    plan = open_plan(spec_of(prefixes), Shard(1, 4))
    state = DataState.from_json(plan.state(100).to_json())
    assert state == open_plan(spec_of(prefixes), Shard(2, 4)).state(100), "the same on every rank"
    resumed = open_plan(spec_of(prefixes), Shard(0, 2)).resumed(state)
    assert resumed.fingerprint == plan.fingerprint
    samples = np.arange(100, 120)
    assert np.array_equal(resumed.read(samples)["labels"], plan.read(samples)["labels"])
    for change, message in (
        ({"shard_files": 2}, "shard_files = 4, this run has 2"),
        ({"dataset_weights": [0.3, 0.4, *WEIGHTS[2:]]}, "dataset_weights"),
        ({"seed": 4}, "seed = 3, this run has 4"),
    ):
        with pytest.raises(ConfigError, match=message):
            open_plan(spec_of(prefixes, **change)).resumed(state, "continue")


def test_the_table_shows_the_groups_that_are_open(prefixes: list[str]) -> None:
    rows = [row for rank in range(4) for row in open_plan(spec_of(prefixes), Shard(rank, 4)).table()]
    assert sum(row.samples for row in rows) == 400
    np.testing.assert_allclose(sum(row.share for row in rows), 1)


@pytest.mark.parametrize(
    "options, message",
    [
        ({"dataset_weights": None}, "dataset_weights is missing; with shard_files"),
        ({"num_samples": None}, "num_samples is missing; with shard_files"),
        ({"order": "megatron"}, "shard_files is 4, which order: megatron has no use for"),
        ({"max_epochs": 3}, "max_epochs is 3, which does not go with shard_files"),
        ({"weight_by": "tokens"}, "weight_by is 'tokens', which does not go with shard_files"),
        ({"skip_samples": [[1, 2]]}, "skip_samples is .* which does not go with shard_files"),
        ({"shard_files": 0}, "shard_files is 0; expected a whole number ≥ 1"),
    ],
)
def test_what_does_not_go_with_it_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        spec_of([f"corpus{place}" for place in range(len(WEIGHTS))], **options)


def test_what_does_not_know_groups_says_so(prefixes: list[str]) -> None:
    with pytest.raises(ConfigError, match="shard_files divides the plan among groups of ranks"):
        SamplePlan(spec_of(prefixes))


def test_more_groups_than_documents_are_refused(make_corpus: MakeCorpus) -> None:
    prefix = make_corpus("one", [[1, 2, 3, 4, 5, 6, 7, 8, 9, 0]])
    spec = PlanSpec.from_options(
        {"dataset_dir": prefix, "dataset_weights": [1], "seq_length": 2, "num_samples": 8, "shard_files": 2}
    )
    with pytest.raises(DataError, match=r"no document begins in the stretch .* fewer groups"):
        open_plan(spec, Shard(1, 2))


def test_a_missing_file_is_missed_by_every_rank(prefixes: list[str]) -> None:
    Path(f"{prefixes[0]}.bin").unlink()
    with pytest.raises(DataError, match=r"corpus0\.bin: cannot be read"):
        open_plan(spec_of(prefixes), Shard(3, 4))


@given(st.floats(0, 1, exclude_max=True))
def test_stretches_side_by_side_hold_each_document_once(cut: float) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        prefix = write_corpus(Path(folder) / "corpus", [[1] * length for length in (3, 9, 1, 20, 7)])
        tokens = []
        for stretch in ((0, cut), (cut, 1)):
            if stretch[0] == stretch[1]:
                continue
            try:
                plan = SamplePlan.build(prefix, seq_length=2, dataset_ranges=[list(stretch)])
                tokens.append(plan.corpora["corpus"].num_tokens)
            except DataError:
                continue
        assert sum(tokens) == 40
