"""The data state lies beside its checkpoint in both of MindFormers' layouts, and is found again from there."""

import json
import os

import pytest

from mindformers_megatron.errors import DataError
from mindformers_megatron.sampling.plan import SamplePlan

pytestmark = pytest.mark.train


@pytest.fixture(scope="module")
def plan(corpora):
    return SamplePlan.build(corpora, seq_length=32)


def checkpoints():
    from mindformers_megatron.loader import checkpoints

    return checkpoints


@pytest.fixture
def legacy(tmp_path, plan):
    """Saves legacy checkpoints (empty files) of 4 samples a step, with their states; returns the run's folder."""

    def save(*steps, rank=0, prefix="llama", global_batch_size=4):
        for step in steps:
            checkpoint = tmp_path / f"rank_{rank}" / f"{prefix}_rank_{rank}-1_{step}.ckpt"
            checkpoint.parent.mkdir(exist_ok=True)
            checkpoint.touch()
            checkpoints().save(checkpoint, plan.state(step * global_batch_size), step, global_batch_size)
        return tmp_path

    return save


def found(folder, step, rank=0, name=None, global_batch_size=4):
    saved = checkpoints().find(folder, rank, name, step, global_batch_size)
    return saved and saved.state.consumed_samples


def test_the_state_of_the_step_that_is_resumed_is_found_among_its_neighbours(legacy):
    folder = legacy(5, 10, 15)
    assert [found(folder, step) for step in (5, 10, 15)] == [20, 40, 60]
    assert found(folder, 12) is None


def test_a_rank_that_the_run_did_not_have_takes_the_state_of_rank_0(legacy):
    assert found(legacy(5, rank=0), 5, rank=3) == 20


def test_other_batch_sizes_are_scaled_as_mindformers_scales_steps(legacy):
    folder = legacy(10)
    assert found(folder, 5, global_batch_size=8) == 40
    assert found(folder, 13, global_batch_size=3) == 40
    assert found(folder, 10, global_batch_size=8) is None


def test_a_named_checkpoint_wins_over_a_newer_one_of_the_same_step(legacy, plan):
    folder = legacy(10)
    newer = folder / "rank_0" / "llama_rank_0_1-1_10.ckpt"
    newer.touch()
    checkpoints().save(newer, plan.state(99), 10, 4)
    older = checkpoints().state_path(folder / "rank_0" / "llama_rank_0-1_10.ckpt")
    os.utime(older, ns=(1, 1))
    assert found(folder, 10) == 99
    assert found(folder, 10, name="llama_rank_0-1_10.ckpt") == 40


def test_a_name_is_read_for_the_own_rank(legacy):
    legacy(10, rank=0)
    folder = legacy(10, rank=1)
    assert found(folder, 10, rank=1, name="llama_rank_0-1_10") == 40


def test_states_go_with_their_checkpoints(legacy):
    folder = legacy(5, 10)
    (folder / "rank_0" / "llama_rank_0-1_5.ckpt").unlink()
    legacy(15)
    left = sorted(path.name for path in (folder / "rank_0").glob("*.json"))
    assert left == ["llama_rank_0-1_10.data_state.json", "llama_rank_0-1_15.data_state.json"]


def test_a_state_is_not_lost_while_its_checkpoint_is_still_being_written(tmp_path, plan):
    (tmp_path / "rank_0").mkdir()
    path = checkpoints().save(tmp_path / "rank_0" / "llama_rank_0-1_5.ckpt", plan.state(20), 5, 4)
    assert path.is_file()


@pytest.mark.parametrize("loaded", ["", "iteration_00000010"])
def test_the_new_layout_is_found_from_its_root_and_from_the_checkpoint_itself(tmp_path, plan, loaded):
    for step in (5, 10):
        (tmp_path / f"iteration_{step:08d}").mkdir()
        checkpoints().save(tmp_path / f"iteration_{step:08d}", plan.state(step * 4), step, 4)
    (tmp_path / "latest_checkpointed_iteration.txt").write_text("10")
    assert found(tmp_path / loaded, 10) == 40


def test_nothing_is_found_where_there_is_nothing(tmp_path):
    assert found(tmp_path, 5) is None
    assert found(tmp_path / "missing", 5) is None


@pytest.mark.parametrize(
    "damage", [{"step": None}, {"global_batch_size": 0}, {"consumed_samples": -1}, {"format": "x"}]
)
def test_a_damaged_state_is_an_error_and_not_a_fresh_start(legacy, damage):
    folder = legacy(5)
    path = next((folder / "rank_0").glob("*.json"))
    path.write_text(json.dumps({**json.loads(path.read_text()), **damage}))
    with pytest.raises(DataError, match=r"data_state\.json"):
        found(folder, 5)
    path.write_text(path.read_text()[:40])
    with pytest.raises(DataError, match="not JSON"):
        found(folder, 5)
