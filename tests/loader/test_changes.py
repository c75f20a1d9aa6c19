"""A real run that is resumed with other weights, one corpus more, a skip list and larger batches loses no sample."""

import json
import signal

import numpy as np
import pytest
from test_training_runs import Run, digest, resumed

from mindformers_megatron.sampling.plan import SamplePlan
from mindformers_megatron.sampling.state import DataState

pytestmark = pytest.mark.train

DONE, BATCH = 24, 6
SKIPPED = [30, 40]


@pytest.fixture(scope="module")
def runs(tmp_path_factory, corpora):
    """Killed behind its checkpoint of step 6 with 4 samples each; then everything changes at once."""
    folder = tmp_path_factory.mktemp("runs")
    common = {"seq_length": 32, "seed": 42}
    before = {"dataset_dir": corpora[:2], "dataset_weights": [0.5, 0.5], **common}
    after = {"dataset_dir": corpora, "dataset_weights": [0.2, 0.3, 0.5], "skip_samples": [SKIPPED], **common}
    first = Run(folder / "first", before, kill_at=7).train()
    assert first.ended == -signal.SIGKILL
    how = resumed(first, data={"on_change": "continue"}, runner_config={"batch_size": BATCH})
    second = Run(folder / "second", after, **how).train()
    assert second.ended == 0, second.console
    return first, second, after


def test_each_corpus_goes_on_from_its_own_count_and_only_the_skipped_samples_are_missing(runs, corpora):
    first, second, _ = runs
    seen = [row for step in range(1, 7) for row in first.steps()[step][0]]
    assert len(seen) == DONE
    steps = second.steps()
    assert min(steps) == DONE // BATCH + 1
    seen += [row for step in sorted(steps) for row in steps[step][0]]
    skipped = 0
    for path in corpora:
        # A corpus's own stream depends on the seed and its name alone, so this is what it has to give, in order.
        stream = SamplePlan.build(path, seq_length=32, seed=42).read(np.arange(len(seen)))["input_ids"]
        order = {digest(row.tolist()): place for place, row in enumerate(stream)}
        places = [order[row] for row in seen if row in order]
        assert places == sorted(set(places)) and places[0] == 0
        skipped += places[-1] + 1 - len(places)
    assert SKIPPED[1] - SKIPPED[0] - len(corpora) <= skipped <= SKIPPED[1] - SKIPPED[0]


def test_each_step_is_what_the_resumed_plan_says(runs):
    first, second, after = runs
    saved = next((first.folder / "output" / "checkpoint").rglob("*_6.data_state.json"))
    plan = SamplePlan.build(**after).resumed(DataState.load(saved), "continue")
    steps = second.steps()
    for place, step in enumerate(sorted(steps)):
        numbers = np.arange(DONE + place * BATCH, DONE + (place + 1) * BATCH)
        assert steps[step][0] == [digest(row) for row in plan.read(numbers)["input_ids"].tolist()]


def test_what_changed_is_shown_once_and_kept_in_the_state(runs):
    _, second, after = runs
    assert second.console.count("the run goes on at sample 24 with changes") == 1
    for words in ("samples of a step", "share of chat", "(not in the blend)", "skip_samples"):
        assert words in second.console
    saved = max(
        (second.folder / "output" / "checkpoint").rglob("*.data_state.json"), key=lambda path: path.stat().st_mtime
    )
    state = DataState.load(saved)
    assert [phase.first for phase in state.phases] == [0, DONE]
    assert json.loads(saved.read_text())["history"] == [[0, 0, 4, 1], [DONE, DONE // BATCH, BATCH, 1]]
    # The same options once more change nothing, whatever on_change says.
    assert SamplePlan.build(**after).resumed(state, "refuse").changes == ()
