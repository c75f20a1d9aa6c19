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
    state = checkpoints().find(folder, rank, name, step, global_batch_size)
    return state and state.saved.state.consumed_samples + state.missing


def test_the_state_of_the_step_that_is_resumed_is_found_among_its_neighbours(legacy):
    folder = legacy(5, 10, 15)
    assert [found(folder, step) for step in (5, 10, 15)] == [20, 40, 60]


def test_where_a_process_was_killed_before_the_state_the_one_before_and_the_steps_between_tell(legacy, plan, caplog):
    folder = legacy(5, 10)
    assert found(folder, 12) == 48
    assert "that of step 10, and the 8 samples between" in caplog.text
    assert found(folder, 3) is None
    # A batch that has grown since step 10, and two steps of it.
    assert found(folder, 7, global_batch_size=8) == 40 + 2 * 8
    # The state of a run whose steps were not always this large counts, not the product.
    checkpoint = folder / "rank_0" / "llama_rank_0-1_20.ckpt"
    checkpoint.touch()
    checkpoints().save(checkpoint, plan.state(1000), 20, 4)
    assert found(folder, 22) == 1008


def test_in_the_new_layout_too(tmp_path, plan):
    for step in (5, 10, 15):
        (tmp_path / f"iteration_{step:08d}").mkdir()
    for step in (5, 10):
        checkpoints().save(tmp_path / f"iteration_{step:08d}", plan.state(step * 4), step, 4)
    (tmp_path / "latest_checkpointed_iteration.txt").write_text("15")
    assert found(tmp_path, 15) == found(tmp_path / "iteration_00000015", 15) == 60


def test_a_checkpoint_that_is_named_itself_has_its_own_state(legacy):
    folder = legacy(5, 10)
    assert found(folder / "rank_0" / "llama_rank_0-1_5.ckpt", 5) == 20


def test_a_prefix_may_hold_dots(legacy):
    folder = legacy(5, prefix="llama-3.1")
    assert found(folder, 5, name="llama-3.1_rank_0-1_5") == found(folder, 5, name="llama-3.1_rank_0-1_5.ckpt") == 20


def test_a_state_may_be_there_before_the_folder_of_its_checkpoint(tmp_path, plan):
    path = checkpoints().save(tmp_path / "iteration_00000005", plan.state(20), 5, 4)
    assert path == tmp_path / "iteration_00000005" / "data_state.json"


def test_a_rank_that_the_run_did_not_have_takes_the_state_of_rank_0(legacy):
    assert found(legacy(5, rank=0), 5, rank=3) == 20


def test_other_batch_sizes_are_scaled_as_mindformers_scales_steps(legacy):
    folder = legacy(10)
    assert found(folder, 5, global_batch_size=8) == 40
    assert found(folder, 13, global_batch_size=3) == 40


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
