"""The same command starts a run and resumes it; only the run's own, empty folder is taken for a first start."""

import os
from copy import deepcopy
from pathlib import Path

import pytest

pytestmark = pytest.mark.train

DATA_PARALLEL = {"use_parallel": True, "parallel": {"parallel_mode": 0}}


def settled(config):
    from mindformers_megatron.loader.restart import settle_resume

    config = deepcopy(config)
    settle_resume(config)
    return config


def resuming(folder: Path, **more):
    return {"output_dir": str(folder), "resume_training": True, "load_checkpoint": str(folder / "checkpoint"), **more}


@pytest.mark.parametrize(
    "left",
    [[], ["iteration_00000005/demo-model.safetensors"], ["rank_0/meta.json"], ["latest_checkpointed_iteration.txt"]],
)
def test_a_run_without_a_whole_checkpoint_of_its_own_begins_at_the_beginning(tmp_path, left):
    for name in left:
        (tmp_path / "checkpoint" / name).parent.mkdir(parents=True)
        (tmp_path / "checkpoint" / name).touch()
    config = settled(resuming(tmp_path))
    assert (config["resume_training"], config["load_checkpoint"]) == (False, "")


def test_the_folder_may_be_written_in_other_words(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    config = settled({"output_dir": "./out", "resume_training": True, "load_checkpoint": "out/../out/checkpoint/"})
    assert config["resume_training"] is False


def test_the_settings_of_the_new_layout_are_understood(tmp_path):
    saved = str(tmp_path / "saved")
    config = settled({"resume_training": True, "checkpoint": {"save_path": saved, "load_path": saved}})
    assert config["checkpoint"] == {"save_path": saved, "load_path": ""}


@pytest.mark.parametrize(
    "left, parallel, resumes",
    [
        # Killed in the first checkpoint: one rank was faster than the other.
        (["rank_0/a_rank_0-1_3.tmp", "rank_1/a_rank_1-1_3.ckpt"], {"use_parallel": True}, False),
        (["rank_0/a_rank_0-1_3.ckpt", "rank_1/a_rank_1-1_3.tmp"], {"use_parallel": True}, False),
        (["rank_0/a_rank_0-1_3.ckpt", "rank_1/a_rank_1-1_3.ckpt"], {"use_parallel": True}, True),
        (["rank_0/a_rank_0-1_3.ckpt", "rank_1/a_rank_1-1_3.tmp"], DATA_PARALLEL, True),
        (["rank_0/a_rank_0-1_3.tmp", "rank_1/a_rank_1-1_3.ckpt"], DATA_PARALLEL, False),
        (["rank_0/a_rank_0-1_3.ckpt", "rank_1/a_rank_1-1_3.tmp"], {"use_parallel": False}, True),
    ],
)
def test_of_several_ranks_all_must_have_saved_unless_each_holds_the_whole_model(tmp_path, left, parallel, resumes):
    for name in left:
        (tmp_path / "checkpoint" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "checkpoint" / name).touch()
    mode = {"parallel": {"parallel_mode": 1}, **parallel}
    assert bool(settled(resuming(tmp_path, **mode))["resume_training"]) is resumes


@pytest.mark.parametrize("mode, newest", [(DATA_PARALLEL, "a_rank_0_2-1_3.ckpt"), ({}, "a_rank_0_1-1_6.ckpt")])
def test_the_newest_checkpoint_of_several_starts_that_all_ranks_can_load_is_named(tmp_path, mode, newest):
    for rank, names in enumerate((["-1_6", "_1-1_3", "_1-1_6", "_2-1_3"], ["-1_6", "_1-1_3", "_1-1_6"])):
        folder = tmp_path / "checkpoint" / f"rank_{rank}"
        folder.mkdir(parents=True)
        for age, name in enumerate(names):
            path = folder / f"a_rank_{rank}{name}.ckpt"
            path.touch()
            os.utime(path, ns=(age, age))
    parallel = {"use_parallel": True, "parallel": {"parallel_mode": 1}, **mode}
    assert settled(resuming(tmp_path, **parallel))["resume_training"] == newest
    by_time = resuming(tmp_path, **parallel, resume_by_last_timestamp_ckpt=True)
    assert settled(by_time) == by_time


@pytest.mark.parametrize("suffix", [".ckpt", ".safetensors"])
def test_a_checkpoint_given_as_a_file_is_named_as_mindformers_wants_it(suffix):
    path = f"saved/rank_0/llama-3.1_rank_0-1_5{suffix}"
    config = settled({"load_checkpoint": path, "resume_training": True})
    assert config == {"load_checkpoint": "saved", "resume_training": Path(path).name}
    weights_only = {"load_checkpoint": path, "resume_training": False}
    assert settled(weights_only) == weights_only


def test_a_tracker_that_was_cut_short_is_read_as_the_newest_whole_checkpoint(tmp_path, caplog):
    for step, files in ((3, ["common.json"]), (6, ["common.json"]), (9, [])):
        folder = tmp_path / f"iteration_{step:08d}"
        folder.mkdir()
        for name in files:
            (folder / name).touch()
    (tmp_path / "latest_checkpointed_iteration.txt").touch()
    config = {"use_legacy_format": False, "resume_training": True, "checkpoint": {"load_path": str(tmp_path)}}
    assert settled(config)["checkpoint"]["load_path"] == str(tmp_path / "iteration_00000006")
    assert "was cut short" in caplog.text
    (tmp_path / "latest_checkpointed_iteration.txt").write_text("3")
    assert settled(config) == config


@pytest.mark.parametrize("name", ["latest_checkpointed_iteration.txt", "rank_0/a-1_5.ckpt", "rank_0/a-1_5.safetensors"])
def test_a_run_with_a_checkpoint_resumes(tmp_path, name):
    (tmp_path / "checkpoint" / name).parent.mkdir(parents=True)
    (tmp_path / "checkpoint" / name).write_text("5")
    assert settled(resuming(tmp_path)) == resuming(tmp_path)


@pytest.mark.parametrize(
    "change",
    [
        {"load_checkpoint": "elsewhere/checkpoint"},
        {"load_checkpoint": ""},
        {"resume_training": False},
        {"resume_training": "demo-1_5.ckpt"},
    ],
)
def test_whatever_else_is_asked_is_left_as_it_is(tmp_path, change):
    assert settled(resuming(tmp_path, **change)) == resuming(tmp_path, **change)
