"""More ranks than wrote a data-parallel checkpoint can load it."""

import json

import pytest

pytestmark = pytest.mark.train


def meta_of(step):
    return json.dumps({"last_epoch": 1, "last_step": step, "last_ckpt_file": f"llama_rank_0-1_{step}.ckpt"})


def spread(*args):
    from mindformers_megatron.loader.spread import spread

    return spread(*args)


@pytest.fixture
def checkpoint(tmp_path):
    folder = tmp_path / "checkpoint" / "rank_0"
    folder.mkdir(parents=True)
    for step in (5, 10):
        (folder / f"llama_rank_0-1_{step}.ckpt").write_text(f"step {step}")
        (folder / f"llama_rank_0-1_{step}.data_state.json").write_text(f"state {step}")
    (folder / "meta.json").write_text(meta_of(10))
    return folder.parent


def test_every_rank_gets_a_folder_with_rank_0s_checkpoints_under_its_own_name(checkpoint, tmp_path):
    folder = spread(checkpoint, 3, tmp_path / "links")
    for rank in range(3):
        own = folder / f"rank_{rank}"
        assert (own / f"llama_rank_{rank}-1_5.ckpt").read_text() == "step 5"
        assert (own / f"llama_rank_{rank}-1_10.data_state.json").read_text() == "state 10"
        assert json.loads((own / "meta.json").read_text())["last_ckpt_file"] == f"llama_rank_{rank}-1_10.ckpt"


def test_again_after_checkpoints_came_and_went(checkpoint, tmp_path):
    folder = spread(checkpoint, 2, tmp_path / "links")
    (checkpoint / "rank_0" / "llama_rank_0-1_5.ckpt").unlink()
    (checkpoint / "rank_0" / "llama_rank_0-1_15.ckpt").write_text("step 15")
    assert spread(checkpoint, 2, tmp_path / "links") == folder
    names = sorted(path.name for path in (folder / "rank_1").glob("*.ckpt"))
    assert names == ["llama_rank_1-1_10.ckpt", "llama_rank_1-1_15.ckpt"]


def test_another_checkpoint_gets_other_links(checkpoint, tmp_path):
    first = spread(checkpoint, 2, tmp_path / "links")
    moved = checkpoint.rename(tmp_path / "moved")
    assert spread(moved, 2, tmp_path / "links") != first


def test_what_is_one_ranks_for_one_rank_or_no_checkpoint_is_left_alone(checkpoint, tmp_path):
    assert spread(checkpoint, 1, tmp_path / "links") == checkpoint
    assert spread(tmp_path, 2, tmp_path / "links") == tmp_path
    assert not (tmp_path / "links").exists()


def test_ranks_that_lag_behind_rank_0_go_on_from_its_checkpoint_too(checkpoint, tmp_path):
    (checkpoint / "rank_1").mkdir()
    (checkpoint / "rank_1" / "llama_rank_1-1_5.ckpt").write_text("its own")
    folder = spread(checkpoint, 2, tmp_path / "links")
    assert (folder / "rank_1" / "llama_rank_1-1_5.ckpt").read_text() == "step 5"
    assert (folder / "rank_1" / "llama_rank_1-1_10.ckpt").read_text() == "step 10"


def test_folders_of_ranks_that_the_run_no_longer_has_do_not_hold_it_back(checkpoint, tmp_path):
    (checkpoint / "rank_1").mkdir()
    (checkpoint / "rank_1" / "llama_rank_1-1_5.ckpt").touch()
    folder = spread(checkpoint, 1, tmp_path / "links")
    assert [path.name for path in folder.iterdir()] == ["rank_0"]


def test_a_checkpoint_of_the_same_name_may_be_of_another_step_and_is_not_used(checkpoint, tmp_path):
    (checkpoint / "rank_1").mkdir()
    (checkpoint / "rank_1" / "llama_rank_1-1_10.ckpt").write_text("step 7 of another start")
    folder = spread(checkpoint, 2, tmp_path / "links")
    assert (folder / "rank_1" / "llama_rank_1-1_10.ckpt").read_text() == "step 10"


def test_a_damaged_record_is_left_out_with_a_warning(checkpoint, tmp_path, caplog):
    (checkpoint / "rank_0" / "meta.json").write_text("{")
    folder = spread(checkpoint, 2, tmp_path / "links")
    assert "meta.json: not MindFormers' record" in caplog.text
    assert not (folder / "rank_1" / "meta.json").exists()
    assert (folder / "rank_1" / "llama_rank_1-1_10.ckpt").exists()
