import hashlib
import os
from pathlib import Path

import pytest

from mindformers_megatron.errors import DataError
from mindformers_megatron.tokenization import inputs
from mindformers_megatron.tokenization.inputs import InputHasher, check_unchanged, find_inputs


def _write(path: Path, content: bytes = b"x") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def test_patterns_give_their_files_by_name_in_the_order_of_the_patterns(tmp_path: Path) -> None:
    for name in ("b2.jsonl", "b10.jsonl", "deep/er/b1.jsonl", "a.jsonl"):
        _write(tmp_path / name)
    found = find_inputs([f"{tmp_path}/**/b*.jsonl", tmp_path / "a.jsonl"])
    assert [str(file.path.relative_to(tmp_path)) for file in found] == [
        "b10.jsonl", "b2.jsonl", "deep/er/b1.jsonl", "a.jsonl",
    ]  # fmt: skip
    assert [file.source for file in found] == ["b10", "b2", "b1", "a"]


def test_a_file_whose_name_looks_like_a_pattern_is_taken_as_it_is(tmp_path: Path) -> None:
    path = _write(tmp_path / "a[1].jsonl")
    _write(tmp_path / "a1.jsonl")
    assert [file.path for file in find_inputs([path])] == [path]


def test_what_cannot_be_read_is_named(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    for name, reason in {
        "missing.jsonl": "cannot be read: No such file",
        "*.jsonl": "no file matches",
        "": "no file in this folder ends in .jsonl",
        "pipe": "is no regular file",
        "dangling": "cannot be read",
    }.items():
        with pytest.raises(DataError, match=reason) as caught:
            find_inputs([tmp_path / name])
        assert str(tmp_path / name) in str(caught.value)


def test_a_file_that_changes_during_the_run_is_noticed(tmp_path: Path) -> None:
    path = _write(tmp_path / "a.jsonl")
    files = find_inputs([path])
    check_unchanged(files)
    _write(path, b"xx")
    with pytest.raises(DataError, match="was changed"):
        check_unchanged(files)


def test_hashes_are_those_of_the_whole_files(tmp_path: Path) -> None:
    contents = [b"0123456789" * 1_000_000, b"", b"ab"]
    paths = [_write(tmp_path / str(number), content) for number, content in enumerate(contents)]
    hasher = InputHasher(find_inputs(paths))
    hasher.reached(3)
    assert [hasher.digest(path) for path in paths] == [hashlib.sha256(content).hexdigest() for content in contents]


def test_hashing_runs_ahead_of_the_readers_so_far_and_no_further(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inputs, "_AHEAD_BYTES", 10)
    path = _write(tmp_path / "a", b"x" * 100)
    hasher = InputHasher(find_inputs([path]))
    hasher.stop()
    hasher = InputHasher(find_inputs([path]))
    hasher.reached(90)
    assert hasher.digest(path) == hashlib.sha256(b"x" * 100).hexdigest()
