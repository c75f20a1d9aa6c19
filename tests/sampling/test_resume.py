"""Changes in mid-run: no sample lost, none seen twice, and every later resume goes on the same way."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pairs import MakeCorpus

from mindformers_megatron import SamplePlan
from mindformers_megatron.errors import ConfigError, DataError
from mindformers_megatron.sampling.blend import Blend
from mindformers_megatron.sampling.schedule import Phase, Schedule, check_skips, extend
from mindformers_megatron.sampling.state import DataState


@pytest.fixture
def blend(make_corpus: MakeCorpus) -> dict[str, str]:
    return {name: make_corpus(name, [30 + place] * 40) for place, name in enumerate(["wiki", "code", "chat", "math"])}


def build(blend: dict[str, str], weights: dict[str, float], **options: object) -> SamplePlan:
    paths = [blend[name] for name in weights]
    return SamplePlan.build(paths, **{"seq_length": 16, "dataset_weights": list(weights.values()), **options})


def located(plan: SamplePlan, samples: np.ndarray) -> list[tuple[str, int]]:
    numbers, cursors = plan.locate(samples)
    return [(plan.names[number], cursor) for number, cursor in zip(numbers.tolist(), cursors.tolist(), strict=True)]


def saved(state: DataState) -> DataState:
    return DataState.from_json(state.to_json())


OLD = {"wiki": 0.5, "code": 0.3, "chat": 0.2}


def test_every_resume_of_an_unchanged_run_gives_the_same_samples(blend: dict[str, str]) -> None:
    plan = build(blend, OLD)
    whole = plan.read(np.arange(60))
    for consumed in range(60):
        resumed = build(blend, OLD).resumed(saved(plan.state(consumed)))
        again = resumed.resumed(saved(resumed.state(min(consumed + 7, 59))))
        for later in (resumed, again):
            rest = later.read(np.arange(consumed, 60))
            assert all(np.array_equal(rest[name], column[consumed:]) for name, column in whole.items())
            assert later.fingerprint == plan.fingerprint


CHANGES = [
    {"wiki": 0.2, "code": 0.6, "chat": 0.2},
    {"wiki": 0.5, "code": 0.5},
    {"wiki": 0.4, "code": 0.3, "chat": 0.2, "math": 0.1},
    {"math": 1.0, "chat": 1.0},
    {"chat": 0.2, "wiki": 0.5, "math": 0.3},
]


@pytest.mark.parametrize("new", CHANGES)
@pytest.mark.parametrize("consumed", [0, 1, 37, 1000])
def test_a_changed_mix_goes_on_from_each_corpuss_own_count(
    blend: dict[str, str], new: dict[str, float], consumed: int
) -> None:
    before = build(blend, OLD)
    after = build(blend, new).resumed(saved(before.state(consumed)), "continue")
    seen = located(before, np.arange(consumed)) + located(after, np.arange(consumed, consumed + 500))
    for name in {**OLD, **new}:
        cursors = [cursor for corpus, cursor in seen if corpus == name]
        assert cursors == list(range(len(cursors)))
    later = [corpus for corpus, _ in seen[consumed:]]
    for name, weight in new.items():
        assert abs(later.count(name) - 500 * weight / sum(new.values())) < len(new)


def test_a_change_is_refused_unless_allowed_and_told_when_it_is(blend: dict[str, str]) -> None:
    state = build(blend, OLD).state(37)
    with pytest.raises(ConfigError, match=r"share of wiki = 0\.5, this run has 0\.2; .*on_change: continue"):
        build(blend, CHANGES[0]).resumed(state)
    resumed = build(blend, CHANGES[0]).resumed(state, "continue")
    assert resumed.changes == (("share of wiki", 0.5, 0.2), ("share of code", 0.3, 0.6))


def test_reordering_the_corpora_is_no_change(blend: dict[str, str]) -> None:
    plan = build(blend, OLD)
    other = build(blend, dict(reversed(OLD.items()))).resumed(plan.state(10))
    assert other.changes == ()
    assert located(other, np.arange(10, 100)) == located(plan, np.arange(10, 100))


def test_a_run_of_many_changes_can_be_resumed_anywhere_and_counts_on(blend: dict[str, str]) -> None:
    plan = build(blend, OLD)
    history: list[tuple[str, int]] = []
    at = 0
    for new, steps in zip([*CHANGES, OLD], [13, 40, 1, 77, 30, 50], strict=True):
        history += located(plan, np.arange(at, at + steps))
        at += steps
        plan = build(blend, new).resumed(saved(plan.state(at)), "continue")
        # A second resume of the same point, without any change asked for, is the same run.
        assert build(blend, new).resumed(saved(plan.state(at))).fingerprint == plan.fingerprint
    history += located(plan, np.arange(at, at + 200))
    for name in blend:
        cursors = [cursor for corpus, cursor in history if corpus == name]
        assert cursors == list(range(len(cursors)))
    # The last plan knows the whole past, as all its corpora but one are still there.
    assert located(plan, np.arange(at + 200)) == history


def test_samples_of_a_corpus_that_is_gone_say_so(blend: dict[str, str]) -> None:
    plan = build(blend, CHANGES[1]).resumed(build(blend, OLD).state(50), "continue")
    assert plan.read(np.arange(50, 60))["input_ids"].shape == (10, 16)
    with pytest.raises(DataError, match="came from chat, which dataset_dir no longer lists"):
        plan.read(np.arange(50))
    assert plan.state(70).corpora[2].cursor == 10


def test_a_weight_schedule_changes_the_mix_at_its_samples(blend: dict[str, str]) -> None:
    schedule = [{"from_sample": 100, "weights": [0.1, 0.1, 0.8]}, {"from_sample": 300, "weights": [0.0, 0.5, 0.5]}]
    plan = build(blend, OLD, weight_schedule=schedule)
    names = [name for name, _ in located(plan, np.arange(500))]
    for (begin, end), weights in zip(
        pairwise([0, 100, 300, 500]), [[0.5, 0.3, 0.2], [0.1, 0.1, 0.8], [0, 0.5, 0.5]], strict=True
    ):
        for name, weight in zip(OLD, weights, strict=True):
            assert abs(names[begin:end].count(name) - weight * (end - begin)) < 3
    for consumed in (0, 99, 100, 250, 450):
        assert build(blend, OLD, weight_schedule=schedule).resumed(saved(plan.state(consumed))).names == plan.names
        assert located(plan.resumed(saved(plan.state(consumed))), np.arange(500)) == located(plan, np.arange(500))


def test_skipped_samples_are_stepped_over_and_nothing_else_changes(blend: dict[str, str]) -> None:
    plain = located(build(blend, OLD), np.arange(300))
    skipping = build(blend, OLD, skip_samples=[[20, 30], [100, 101], [25, 40]])
    expected = [where for place, where in enumerate(plain) if not (20 <= place < 40 or place == 100)]
    assert located(skipping, np.arange(250)) == expected[:250]


def test_skipping_a_spike_after_a_resume_leaves_the_past_alone(blend: dict[str, str]) -> None:
    plain = build(blend, OLD)
    everything = located(plain, np.arange(400))
    resumed = build(blend, OLD, skip_samples=[[60, 80], [5, 8]]).resumed(saved(plain.state(50)), "continue")
    expected = [*everything[:60], *everything[80:]]
    assert located(resumed, np.arange(300)) == expected[:300]
    again = build(blend, OLD, skip_samples=[[60, 80], [5, 8]]).resumed(saved(resumed.state(100)))
    assert located(again, np.arange(300)) == expected[:300]


@pytest.mark.parametrize("bad", [[[3, 3]], [[5, 2]], [[-1, 4]], [[1]], [[1, 2, 3]], [["a", "b"]], [[True, 4]]])
def test_what_is_no_range_cannot_be_skipped(blend: dict[str, str], bad: list[list[object]]) -> None:
    with pytest.raises(ConfigError, match="skip_samples"):
        build(blend, OLD, skip_samples=bad)


@given(
    parts=st.lists(st.integers(0, 20), min_size=1, max_size=5).filter(any),
    pairs=st.lists(st.tuples(st.integers(0, 200), st.integers(1, 40)), max_size=6),
    changes=st.lists(st.integers(1, 300), max_size=4),
)
def test_phases_and_skips_never_lose_or_repeat_a_sample(
    parts: list[int], pairs: list[tuple[int, int]], changes: list[int]
) -> None:
    skips = check_skips([[begin, begin + size] for begin, size in pairs])
    phases: tuple[Phase, ...] = ()
    for number, first in enumerate(sorted({0, *changes})):
        blend = Blend(np.roll(np.array(parts, dtype=np.int64), number))
        phases = extend(phases, first, blend, skips)
    schedule = Schedule(phases)
    samples = np.arange(400)
    positions = np.concatenate([schedule.phase_at(int(i)).positions(samples[i : i + 1]) for i in samples])
    passed = {place for begin, end in skips for place in range(begin, end)}
    assert positions.tolist() == [place for place in range(400 + len(passed)) if place not in passed][:400]
    corpus, cursor = schedule.locate(samples)
    for number in range(len(parts)):
        own = cursor[corpus == number]
        assert (np.diff(own) > 0).all()
    for number in range(len(parts)):
        assert np.array_equal(schedule.samples_of(number, cursor[corpus == number], 400), samples[corpus == number])
    for sample in (0, 1, 57, 399):
        counts = schedule.cursors(sample)
        for number in range(len(parts)):
            upcoming = cursor[sample:][corpus[sample:] == number]
            assert not upcoming.size or upcoming[0] >= counts[number]


def test_epochs_beyond_the_limit_are_refused_with_the_numbers(blend: dict[str, str]) -> None:
    build(blend, OLD, max_epochs=2).check_epochs(100)
    with pytest.raises(
        ConfigError, match=r"10000 samples take 5000 from wiki \(1200 tokens\).*66\.667 epochs.*2 are allowed"
    ):
        build(blend, OLD, max_epochs=2).check_epochs(10_000)
    with pytest.raises(ConfigError, match="from chat"):
        build(blend, OLD, max_epochs={"chat": 0.5}).check_epochs(1000)
    with pytest.raises(ConfigError, match="did you mean chat"):
        build(blend, OLD, max_epochs={"chap": 1}).check_epochs(10)


def test_a_state_cannot_be_resumed_under_another_split(blend: dict[str, str]) -> None:
    state = build(blend, OLD, split="90,10,0").state(5)
    with pytest.raises(ConfigError, match="split_part = 'train', this run has 'valid'"):
        build(blend, OLD, split="90,10,0", split_part="valid").resumed(state)
