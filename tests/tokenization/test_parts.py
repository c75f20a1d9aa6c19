import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mindformers_megatron.errors import DataError
from mindformers_megatron.tokenization.inputs import InputFile, find_inputs
from mindformers_megatron.tokenization.parts import Piece, cut_parts, part_bytes_for, read_lines


@given(
    contents=st.lists(st.lists(st.sampled_from([b"", b"a", b"bc\r", b"\xef\xbb\xbf", b"d" * 50])), max_size=3),
    last_line_ends=st.booleans(),
    part_bytes=st.integers(1, 70),
)
def test_every_line_is_read_once_and_in_order_wherever_the_cuts_are(
    contents: list[list[bytes]], last_line_ends: bool, part_bytes: int
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        expected = []
        for number, lines in enumerate(contents):
            path = Path(folder, f"{number}.jsonl")
            content = b"x" + b"\n".join(lines) + b"\n" * last_line_ends
            path.write_bytes(content)
            offset = 0
            for line in content.splitlines(keepends=True) if b"\r" not in content else _split(content):
                expected.append((path, offset, line))
                offset += len(line)
        files = find_inputs([str(Path(folder, f"{number}.jsonl")) for number in range(len(contents))])
        parts = list(cut_parts(files, part_bytes))
        pieces = [piece for part in parts for piece in part.pieces]
        found = [(piece.path, offset, line) for piece in pieces for offset, line in read_lines(piece)]
    assert found == expected
    assert [part.number for part in parts] == list(range(len(parts)))


def _split(content: bytes) -> list[bytes]:
    pieces = content.split(b"\n")
    lines = [piece + b"\n" for piece in pieces[:-1]]
    return lines + [pieces[-1]] * bool(pieces[-1])


def test_a_byte_order_mark_at_the_start_of_a_file_is_no_part_of_the_first_line(tmp_path: Path) -> None:
    path = tmp_path / "marked.jsonl"
    path.write_bytes(b"\xef\xbb\xbf{}\n\xef\xbb\xbf{}\n")
    parts = cut_parts(find_inputs([path]), 1000)
    assert [line for part in parts for piece in part.pieces for line in read_lines(piece)] == [
        (3, b"{}\n"),
        (6, b"\xef\xbb\xbf{}\n"),
    ]


def test_a_file_of_nothing_but_a_byte_order_mark_has_no_lines(tmp_path: Path) -> None:
    path = tmp_path / "marked.jsonl"
    path.write_bytes(b"\xef\xbb\xbf")
    parts = cut_parts(find_inputs([path]), 2)
    assert [line for part in parts for piece in part.pieces for line in read_lines(piece)] == []


def test_a_file_that_became_shorter_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "short.jsonl"
    path.write_bytes(b"{}\n")
    with pytest.raises(DataError, match="shorter than when the run began"):
        list(read_lines(Piece(path, 0, 10, "short")))


@pytest.mark.parametrize(("size", "expected"), [(0, 1 << 22), (1 << 29, 1 << 23), (1 << 40, 1 << 23)])
def test_the_part_size_follows_from_the_size_of_the_input(size: int, expected: int) -> None:
    assert (
        part_bytes_for([InputFile(Path("a"), size // 2, 0, "a"), InputFile(Path("b"), size // 2, 0, "b")]) == expected
    )
