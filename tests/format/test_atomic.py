import os
import signal
import threading
from pathlib import Path

import pytest

from mindformers_megatron.errors import ConfigError
from mindformers_megatron.format.atomic import (
    StagedFile,
    open_atomically,
    remove_left_over,
    temporary_path,
    write_atomically,
)


def test_the_old_content_stays_until_the_new_one_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    write_atomically(path, b"old")
    with open_atomically(path) as stream:
        stream.write(b"new")
        stream.flush()
        assert path.read_bytes() == b"old"
    assert path.read_bytes() == b"new"
    assert list(tmp_path.iterdir()) == [path]


def test_an_exception_keeps_the_old_content_and_removes_the_new(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    write_atomically(path, b"old")
    with pytest.raises(KeyboardInterrupt), open_atomically(path) as stream:
        stream.write(b"new")
        raise KeyboardInterrupt
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_what_killed_writers_left_can_be_told_from_all_else(tmp_path: Path) -> None:
    (tmp_path / "below").mkdir()
    kept = [tmp_path / name for name in ("state.json", "below/notes.tmp", "a-1.tmp", "x.bin.tmp", "1-2.tmp.json")]
    for path in kept:
        path.write_bytes(b"kept")
    staged_folder = temporary_path(tmp_path / ".tokenizer")
    staged_folder.mkdir()
    (staged_folder / "vocab.json").touch()
    writer = os.fork()
    if not writer:
        StagedFile(tmp_path / "below" / "state.json").file.write(b"half of")
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(writer, 0)
    assert len(list((tmp_path / "below").iterdir())) == 2
    remove_left_over(tmp_path)
    assert sorted(path for path in tmp_path.rglob("*") if path.is_file()) == sorted(kept)
    assert not staged_folder.exists()


def test_many_writers_at_once_leave_the_content_of_one(tmp_path: Path) -> None:
    path = tmp_path / "cache.npy"
    contents = [bytes([i]) * 100_000 for i in range(8)]
    threads = [threading.Thread(target=write_atomically, args=(path, content)) for content in contents]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert path.read_bytes() in contents
    assert list(tmp_path.iterdir()) == [path]


def test_an_exclusive_file_has_one_writer_at_a_time(tmp_path: Path) -> None:
    first = StagedFile(tmp_path / "x", exclusive=True)
    with pytest.raises(ConfigError, match="another process is writing"):
        StagedFile(tmp_path / "x", exclusive=True)
    first.file.write(b"1")
    first.commit()
    StagedFile(tmp_path / "x", exclusive=True).discard()
    assert (tmp_path / "x").read_bytes() == b"1"


def test_what_a_killed_writer_left_is_written_over(tmp_path: Path) -> None:
    child = os.fork()
    if child == 0:
        staged = StagedFile(tmp_path / "x", exclusive=True)
        staged.file.write(b"much longer than what comes next")
        staged.sync()
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)
    assert [path.name for path in tmp_path.iterdir()] == ["x.tmp"]
    with open_atomically(tmp_path / "x", exclusive=True) as stream:
        stream.write(b"new")
    assert (tmp_path / "x").read_bytes() == b"new"


@pytest.mark.parametrize("exclusive", [True, False])
def test_a_place_that_cannot_be_written_is_a_config_error(tmp_path: Path, exclusive: bool) -> None:
    (tmp_path / "file").touch()
    for parent in ("none", "file"):
        with pytest.raises(ConfigError, match="cannot be written"):
            StagedFile(tmp_path / parent / "x", exclusive=exclusive)
