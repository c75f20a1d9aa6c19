"""``create_iterator``: the batches of one rank, without end, and a cursor that counts what was delivered."""

import json
import subprocess
import sys
from itertools import islice

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mindformers_megatron.errors import ConfigError, DataError

pytestmark = pytest.mark.train


def build(blend, **options):
    from mindformers_megatron.loader import BlendedMegatronDataLoader

    return BlendedMegatronDataLoader(**{**blend, **options})


def test_the_snippet_of_a_practitioner_runs_as_it_stands(corpora, tmp_path):
    snippet = f"""
import mindformers_megatron.loader
from mindformers.dataset import BlendedMegatronDataLoader

loader = BlendedMegatronDataLoader(
    dataset_dir={corpora},
    dataset_weights=[0.5, 0.3, 0.2], seq_length=2048, micro_batch_size=1, shuffle=True,
    num_parallel_workers=8, prefetch_size=16, seed=42)
iterator = loader.create_iterator()
for i, batch in enumerate(iterator):
    print(i, batch["input_ids"].shape)
    if i > 100: break
"""
    done = subprocess.run([sys.executable, "-c", snippet], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert "101 (1, 2048)" in done.stdout.splitlines()
    assert "Exception ignored" not in done.stderr and "Traceback" not in done.stderr
    # The table of what is in force.
    assert all(path in done.stdout for path in corpora) and "50.0000%" in done.stdout


def test_the_first_hundred_thousand_samples_keep_the_weights(blend):
    corpus, _ = build(blend).plan.locate(np.arange(100_000))
    np.testing.assert_allclose(np.bincount(corpus) / 100_000, [0.5, 0.3, 0.2], rtol=1e-4)


def test_batches_are_the_plans_samples_in_order_and_go_on_behind_the_epoch(blend):
    loader = build(blend, micro_batch_size=3)
    got = list(islice(loader.create_iterator(), 70))
    assert {name: (column.shape, column.dtype) for name, column in got[0].items()} == dict.fromkeys(
        ("input_ids", "labels", "loss_mask", "position_ids"), ((3, 32), np.int32)
    )
    expected = loader.plan.read(np.arange(210))
    for name in expected:
        np.testing.assert_array_equal(np.concatenate([batch[name] for batch in got]), expected[name])


@settings(max_examples=20)
@given(st.integers(0, 60), st.integers(1, 40), st.integers(1, 2), st.integers(1, 20))
def test_a_state_taken_anywhere_goes_on_with_the_very_next_batch(blend, delivered, batch_size, workers, prefetch):
    blend = {**blend, "num_samples": None}
    options = {"micro_batch_size": batch_size, "num_parallel_workers": workers, "prefetch_size": prefetch}
    first = build(blend, num_shards=2, shard_id=1, **options)
    list(islice(first.create_iterator(), delivered))
    state = json.loads(json.dumps(first.state_dict()))
    assert state["consumed_samples"] == delivered * batch_size * 2
    second = build(blend, num_shards=2, shard_id=1)
    second.load_state_dict(state)
    row = next(second.create_iterator())["input_ids"][0]
    np.testing.assert_array_equal(row, first.plan.read(np.array([delivered * batch_size * 2 + 1]))["input_ids"][0])


def test_the_state_is_the_same_on_every_rank_and_valid_for_any_other_number_of_ranks(blend):
    states = []
    for rank in range(2):
        loader = build(blend, num_shards=2, shard_id=rank, micro_batch_size=3)
        list(islice(loader.create_iterator(), 5))
        states.append(loader.state_dict())
    assert states[0] == states[1]
    alone = build(blend, micro_batch_size=6)
    alone.load_state_dict(states[0])
    np.testing.assert_array_equal(
        next(alone.create_iterator())["input_ids"], alone.plan.read(np.arange(30, 36))["input_ids"]
    )


def test_the_state_of_another_plan_is_refused_by_field_and_values(blend):
    state = build(blend).state_dict()
    with pytest.raises(ConfigError, match="seed = 42, this run has 43"):
        build(blend, seed=43).load_state_dict(state)
    with pytest.raises(DataError, match="not a data state"):
        build(blend).load_state_dict({"consumed_samples": 3})


def test_other_weights_come_into_force_where_that_is_asked_for(blend):
    loader = build(blend)
    list(islice(loader.create_iterator(), 20))
    changed = build(blend, dataset_weights=[0, 1, 0], on_change="continue")
    changed.load_state_dict(loader.state_dict())
    got = next(changed.create_iterator())["input_ids"][0]
    corpus, cursor = changed.plan.locate(np.array([20]))
    assert (changed.plan.names[corpus[0]], cursor[0]) == ("code", 6)
    np.testing.assert_array_equal(got, changed.plan.read(np.array([20]))["input_ids"][0])


def test_one_corpus_is_a_blend_of_one(corpora, blend):
    from mindformers_megatron.loader import BlendedMegatronDataLoader, MegatronIndexedDataset

    one = MegatronIndexedDataset(corpora[0], seq_length=32)
    same = BlendedMegatronDataLoader([corpora[0]], seq_length=32)
    assert one.plan.fingerprint == same.plan.fingerprint
    with pytest.raises(ConfigError, match="reads one corpus, dataset_dir lists 3"):
        MegatronIndexedDataset(**blend)


@pytest.mark.parametrize("seq_length", [16, 1024, 4096])
@pytest.mark.parametrize("columns", [["input_ids", "labels"], ["input_ids", "labels", "attention_mask"]])
def test_what_is_computed_at_once_stays_small_however_long_the_rows_are(make_corpus, seq_length, columns):
    from mindformers_megatron import SamplePlan
    from mindformers_megatron.loader.stream import BLOCK_BYTES, rows_per_block

    plan = SamplePlan.build(make_corpus("wiki", [100, 100]), seq_length=seq_length, columns=columns)
    row = sum(column.nbytes for column in plan[0].values())
    assert rows_per_block(plan) == 1 or rows_per_block(plan) * row <= BLOCK_BYTES
