"""What was given to each corpus's account is what the samples' own places say, through phases and skips."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mindformers_megatron.format.provenance import DocsWriter
from mindformers_megatron.sampling.delivered import samples_asked, samples_given, tokens_given
from mindformers_megatron.sampling.grouped_plan import open_plan
from mindformers_megatron.sampling.plan import SamplePlan
from mindformers_megatron.sampling.sources import SourceCounter
from mindformers_megatron.sampling.spec import PlanSpec

SKIPS = st.lists(st.tuples(st.integers(0, 300), st.integers(1, 80)), max_size=3)


@settings(max_examples=40)
@given(SKIPS, st.integers(0, 400), st.integers(0, 300), st.integers(1, 300))
def test_counts_are_those_of_locate_through_schedules_and_skips(blend, skips, begin, length, step):
    schedule = [{"from_sample": step, "weights": [0.1, 0.1, 0.8]}]
    plan = SamplePlan.build(
        **blend, weight_schedule=schedule, skip_samples=[[first, first + size] for first, size in skips]
    )
    corpus, _ = plan.locate(np.arange(begin, begin + length))
    counted = np.bincount(corpus, minlength=3)
    np.testing.assert_array_equal(samples_given(plan, begin, begin + length), counted)
    before = max(0, min(step, begin + length) - begin)
    expected = before * np.array([0.5, 0.3, 0.2]) + (length - before) * np.array([0.1, 0.1, 0.8])
    np.testing.assert_allclose(samples_asked(plan, begin, begin + length), expected, atol=1e-6)


def test_a_resumed_run_counts_its_past_under_the_weights_of_the_past(blend):
    state = SamplePlan.build(**blend).state(100)
    changed = SamplePlan.build(**{**blend, "dataset_weights": [1, 1, 0], "skip_samples": [[90, 130]]})
    plan = changed.resumed(state, "continue")
    corpus, _ = plan.locate(np.arange(160))
    np.testing.assert_array_equal(samples_given(plan, 0, 160), np.bincount(corpus, minlength=3))
    np.testing.assert_allclose(samples_asked(plan, 0, 160), [80, 60, 20])


def test_megatrons_order_is_counted_too(blend):
    plan = SamplePlan.build(**blend, order="megatron")
    corpus, _ = plan.locate(np.arange(10, 30))
    np.testing.assert_array_equal(samples_given(plan, 10, 30), np.bincount(corpus, minlength=3))
    np.testing.assert_allclose(samples_asked(plan, 0, 40), [20, 12, 8], atol=1)


def test_groups_that_files_are_divided_among_are_counted_together(blend):
    plan = open_plan(PlanSpec.from_options({**blend, "shard_files": 4}))
    for begin, end in ((0, 1), (3, 40), (7, 130)):
        corpus, _ = plan.locate(np.arange(begin, end))
        counted = np.bincount(corpus, minlength=3)
        np.testing.assert_array_equal(samples_given(plan, begin, end), counted)
        # No file is open: every input counts.
        np.testing.assert_array_equal(tokens_given(plan, begin, end), counted * 32)
    np.testing.assert_allclose(samples_asked(plan, 40, 440), [200, 120, 80], atol=1e-6)
    assert not plan.corpora
    rows = plan.read(np.arange(400))
    corpus, _ = plan.locate(np.arange(400))
    counts = np.bincount(corpus, weights=rows["loss_mask"].sum(axis=1), minlength=3)
    np.testing.assert_array_equal(tokens_given(plan, 0, 400), counts)


@pytest.mark.parametrize("order", ["stream", "document"])
def test_tokens_that_count_are_those_of_the_loss_mask(blend, order):
    plan = SamplePlan.build(**blend, order=order)
    corpus, _ = plan.locate(np.arange(5, 105))
    counted = plan.read(np.arange(5, 105))["loss_mask"].sum(axis=1)
    np.testing.assert_array_equal(tokens_given(plan, 5, 105), np.bincount(corpus, counted, minlength=3))


def test_tokens_are_counted_by_the_source_of_their_document(make_corpus):
    """Each source has ids of its own, so that the rows themselves tell."""
    rng = np.random.default_rng(3)
    names = ["web", "books", "papers"]
    owners = rng.integers(0, 3, 60)
    documents = [[100 * (owner + 1)] * int(rng.integers(1, 40)) for owner in owners]
    known, other = make_corpus("known", documents), make_corpus("other", [[1] * 500])
    with DocsWriter(known) as writer:
        for place, owner in enumerate(owners):
            writer.add([None], source=names[owner], file="f", lines=[place + 1], byte_offsets=[0], metas=[None])
    for order in ("stream", "document"):
        plan = SamplePlan.build([known, other], dataset_weights=[3, 1], seq_length=16, order=order)
        numbers = np.arange(3, 90)
        rows = plan.read(numbers)
        tokens = np.concatenate((rows["input_ids"], rows["labels"][:, -1:]), axis=1)
        expected = {name: int((tokens == 100 * (place + 1)).sum()) for place, name in enumerate(names)}
        assert SourceCounter(plan).tokens(numbers) == expected
