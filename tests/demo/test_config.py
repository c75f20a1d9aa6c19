"""The YAML that the demo writes, and when it kills."""

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from mindformers_megatron.demo.config import CORPORA, Schedule, write_config
from mindformers_megatron.demo.folder import RunFiles
from mindformers_megatron.errors import ConfigError


@given(st.integers(10, 100_000))
def test_the_kill_falls_between_two_checkpoints_with_room_on_both_sides(steps):
    schedule = Schedule(steps)
    every = schedule.checkpoint_every
    assert every < schedule.kill_after < 2 * every <= steps


def test_too_few_steps_are_refused():
    with pytest.raises(ConfigError, match="9 steps leave no room"):
        Schedule(9)


def test_any_path_ends_up_in_the_yaml_as_it_is(tmp_path):
    folder = tmp_path / 'it\'s "a": {path} #1 中文 $x\\y'
    folder.mkdir()
    run = RunFiles(folder)
    write_config(run, Schedule(60), {name: str(folder / name) for name in CORPORA}, 4096)
    config = yaml.safe_load(run.config.read_text(encoding="utf-8"))
    loader = config["train_dataset"]["data_loader"]
    assert loader["dataset_dir"] == [str(folder / name) for name in CORPORA]
    assert loader["dataset_weights"] == [0.5, 0.3, 0.2]
    assert config["output_dir"] == str(folder / "output")
    assert loader["num_samples"] == 60 * config["runner_config"]["batch_size"]
