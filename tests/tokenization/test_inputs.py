import hashlib
import os
from pathlib import Path

import pytest

from mindformers_megatron.errors import DataError
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


def test_hashes_taken_range_by_range_are_those_of_the_whole_files(tmp_path: Path) -> None:
    one, two = _write(tmp_path / "one", b"0123456789"), _write(tmp_path / "two", b"ab")
    hasher = InputHasher()
    for path, start, stop in ((one, 0, 4), (one, 4, 8), (one, 8, 10), (two, 0, 2), (one, 0, 4), (one, 4, 10)):
        hasher.add(path, start, stop)
    assert hasher.digest(one) == hashlib.sha256(b"0123456789").hexdigest()
    assert hasher.digest(two) == hashlib.sha256(b"ab").hexdigest()
    assert hasher.digest(tmp_path / "empty, never added") == hashlib.sha256(b"").hexdigest()
