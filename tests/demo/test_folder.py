"""The demo works in a folder of its own and touches nothing else."""

import pytest

from mindformers_megatron.demo.folder import DemoFolder
from mindformers_megatron.errors import ConfigError


def test_a_new_or_empty_folder_is_taken(tmp_path):
    assert DemoFolder.claim(tmp_path / "new" / "demo").straight.folder.is_dir()
    (tmp_path / "empty").mkdir()
    assert DemoFolder.claim(tmp_path / "empty").straight.folder.is_dir()


def test_its_own_folder_is_emptied_and_what_others_put_there_stays(tmp_path):
    folder = DemoFolder.claim(tmp_path / "demo")
    folder.text("prose").write_text("old")
    (tmp_path / "demo" / "notes.txt").write_text("mine")
    folder = DemoFolder.claim(tmp_path / "demo")
    assert not folder.text("prose").exists()
    assert (tmp_path / "demo" / "notes.txt").read_text() == "mine"


def test_a_folder_with_anything_else_in_it_is_refused_and_left_alone(tmp_path):
    (tmp_path / "text").mkdir()
    (tmp_path / "text" / "novel.txt").write_text("mine")
    with pytest.raises(ConfigError, match="is not empty, and no demo made it"):
        DemoFolder.claim(tmp_path)
    assert (tmp_path / "text" / "novel.txt").read_text() == "mine"


def test_a_file_in_the_place_of_the_folder_is_refused(tmp_path):
    (tmp_path / "demo").write_text("")
    with pytest.raises(ConfigError, match="is no folder"):
        DemoFolder.claim(tmp_path / "demo")
