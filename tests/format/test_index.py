"""A damaged pair is refused in one line; no header, however wrong, does anything else."""

import pickle
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from mindformers_megatron.errors import DataError
from mindformers_megatron.format.dtypes import DTYPE_CODES
from mindformers_megatron.format.index import read_index
from mindformers_megatron.format.reader import IndexedDataset

WIDTHS = {code: dtype.itemsize for code, dtype in DTYPE_CODES.items()}
COUNTS = [0, 1, 2**31, 2**32, 2**60, 2**63, 2**64 - 1]


def refusal(prefix: str, **options: bool) -> str:
    with pytest.raises(DataError) as caught:
        read_index(prefix, **options)
    message = str(caught.value)
    assert "\n" not in message
    assert prefix in message
    return message


def patch(prefix: str, position: int, data: bytes) -> None:
    path = Path(prefix + ".idx")
    content = bytearray(path.read_bytes())
    content[position : position + len(data)] = data
    path.write_bytes(content)


def test_a_sound_pair_opens_with_its_counts(pair: str) -> None:
    index = read_index(pair)
    assert (index.num_documents, index.num_sequences, index.num_tokens) == (5, 6, 11)
    assert index.document_indices.tolist() == [0, 1, 4, 4, 5, 6]
    assert index.sequence_lengths.tolist() == [3, 2, 0, 1, 4, 1]
    assert not index.sequence_lengths.flags.writeable


@pytest.mark.parametrize("suffix", ["", ".bin", ".idx"])
def test_a_pair_is_named_by_its_prefix_or_either_file(pair: str, suffix: str) -> None:
    assert read_index(Path(pair + suffix)).prefix == pair


@pytest.mark.parametrize("position", range(9))
def test_a_wrong_magic_is_refused(pair: str, position: int) -> None:
    patch(pair, position, b"\xfe")
    assert "expected a Megatron index" in refusal(pair)


@pytest.mark.parametrize("version", [0, 2, 2**32, 2**64 - 1])
def test_another_version_is_refused(pair: str, version: int) -> None:
    patch(pair, 9, struct.pack("<Q", version))
    assert f"version {version}, expected 1" in refusal(pair)


def test_a_big_endian_index_is_named(pair: str) -> None:
    patch(pair, 9, struct.pack(">Q", 1))
    assert "big-endian" in refusal(pair)


@pytest.mark.parametrize("code", [0, 9, 255])
def test_an_unknown_dtype_code_is_refused(pair: str, code: int) -> None:
    patch(pair, 17, bytes([code]))
    assert f"dtype code {code}" in refusal(pair)


@pytest.mark.parametrize("code", [code for code, width in WIDTHS.items() if width != 2])
def test_a_dtype_code_of_another_width_is_found_out_by_the_pointers(pair: str, code: int) -> None:
    patch(pair, 17, bytes([code]))
    assert "2 bytes each, so the dtype code is wrong" in refusal(pair)


@pytest.mark.parametrize("position", [18, 26], ids=["sequences", "document indices"])
@pytest.mark.parametrize("count", COUNTS)
def test_counts_that_do_not_fit_the_file_are_refused_without_allocating(pair: str, position: int, count: int) -> None:
    patch(pair, position, struct.pack("<Q", count))
    assert str(count) in refusal(pair)


@pytest.mark.parametrize("shift", [-1, 1])
@pytest.mark.parametrize("position", [18, 26], ids=["sequences", "document indices"])
def test_counts_off_by_one_are_refused(pair: str, position: int, shift: int) -> None:
    right = struct.unpack_from("<Q", Path(pair + ".idx").read_bytes(), position)[0]
    patch(pair, position, struct.pack("<Q", right + shift))
    refusal(pair)


def test_an_index_cut_anywhere_is_refused(pair: str) -> None:
    path = Path(pair + ".idx")
    content = path.read_bytes()
    for size in range(len(content)):
        path.write_bytes(content[:size])
        refusal(pair)


def test_tokens_cut_anywhere_are_refused(pair: str) -> None:
    path = Path(pair + ".bin")
    content = path.read_bytes()
    for size in range(len(content)):
        path.write_bytes(content[:size])
        assert f"{size} bytes" in refusal(pair)


@pytest.mark.parametrize("more", [1, 2, 3, 100])
def test_files_with_something_behind_are_refused(pair: str, more: int) -> None:
    for suffix in (".bin", ".idx"):
        path = Path(pair + suffix)
        content = path.read_bytes()
        path.write_bytes(content + bytes(more))
        refusal(pair)
        path.write_bytes(content)


@pytest.mark.parametrize(("factor", "width"), [(2, 4), (4, 8), (0.5, 1)])
def test_tokens_of_another_width_are_named(pair: str, factor: float, width: int) -> None:
    path = Path(pair + ".bin")
    path.write_bytes(bytes(int(path.stat().st_size * factor)))
    assert f"written with {width} instead of 2 bytes a token" in refusal(pair)


def test_a_first_sequence_that_does_not_reach_the_second_is_named(pair: str) -> None:
    patch(pair, 34, struct.pack("<i", 7))
    assert "sequence 0 is 7 tokens of uint16, but sequence 1 is at byte 6, expected 14" in refusal(pair)


def test_document_indices_that_miss_the_ends_are_refused(pair: str) -> None:
    documents = 34 + 12 * 6
    patch(pair, documents, struct.pack("<q", 1))
    assert "first document index is 1" in refusal(pair)
    patch(pair, documents, struct.pack("<qqqqqq", 0, 1, 4, 4, 5, 7))
    assert "last document index is 7" in refusal(pair)


@pytest.mark.parametrize("value", [1, -2, 2**62, -(2**63)])
@pytest.mark.parametrize("sequence", [0, 5], ids=["first", "last"])
def test_pointers_that_miss_the_ends_are_refused(pair: str, sequence: int, value: int) -> None:
    patch(pair, 34 + 4 * 6 + 8 * sequence, struct.pack("<q", value))
    refusal(pair)


@pytest.mark.parametrize("value", [-1, 2**31 - 1, -(2**31)])
@pytest.mark.parametrize("sequence", [0, 5], ids=["first", "last"])
def test_lengths_that_miss_the_ends_are_refused(pair: str, sequence: int, value: int) -> None:
    patch(pair, 34 + 4 * sequence, struct.pack("<i", value))
    refusal(pair)


@pytest.mark.parametrize("missing", [".bin", ".idx"])
def test_half_a_pair_is_refused_naming_the_missing_half(pair: str, missing: str) -> None:
    Path(pair + missing).unlink()
    assert f"{pair}{missing}: not found" in refusal(pair)


def test_no_pair_a_folder_and_an_unusable_name_are_refused(tmp_path: Path) -> None:
    assert "no such pair" in refusal(str(tmp_path / "none"))
    assert "no such pair" in refusal(str(tmp_path / "no" / "folder" / "none"))
    assert "is a folder" in refusal(str(tmp_path))
    refusal(str(tmp_path / ("long" * 100)))


@pytest.mark.parametrize(
    ("content", "name"),
    [
        (b"", "is empty"),
        (b"MMIDIDX\x00\x00", "shorter than"),
        (b"MSPT" + struct.pack("<iiiq", 1, 1, 2048, 3), "MSPT"),
        (b"TNTIDX\x00\x00" + bytes(40), "TNTIDX"),
        (pickle.dumps({"sizes": [1], "offsets": [0]}), "pickle"),
        (b"PK\x03\x04" + bytes(40), ".npz"),
        (b'{"doc_ends": [3, 5]}', "JSON"),
        (b"\x1f\x8b\x08" + bytes(40), "gzip"),
        (b"version https://git-lfs.github.com/spec/v1\n", "git lfs pull"),
        (b"<!DOCTYPE html><html>", "HTML"),
        (bytes(4096), "zero bytes"),
        (b"\n" * 64, "found b"),
    ],
)
def test_files_of_another_kind_are_named(pair: str, content: bytes, name: str) -> None:
    Path(pair + ".idx").write_bytes(content)
    assert name in refusal(pair)


def test_a_numpy_index_under_its_own_name_is_named(pair: str) -> None:
    Path(pair + ".idx").unlink()
    np.savez(pair + ".idx", sizes=[1], offsets=[0])
    assert ".npz" in refusal(pair)


def test_a_pickle_is_not_executed(pair: str, tmp_path: Path) -> None:
    class Bomb:
        def __reduce__(self) -> tuple[Callable[..., object], tuple[object, ...]]:
            return Path.touch, (tmp_path / "executed",)

    Path(pair + ".idx").write_bytes(pickle.dumps(Bomb()))
    refusal(pair)
    assert not (tmp_path / "executed").exists()


def test_a_pair_without_sequences_is_legal(tmp_path: Path, write: Callable[..., str]) -> None:
    for documents in ([], [[], []], [[[]]]):
        dataset = IndexedDataset(write(tmp_path / "empty", documents))
        assert dataset.num_documents == len(documents)
        assert dataset.num_tokens == 0
        assert dataset.tokens(0, 0).size == 0
    Path(dataset.prefix + ".bin").write_bytes(b"\x01\x00")
    refusal(dataset.prefix)


def test_modes_are_asked_for_or_not_as_the_file_has_them(tmp_path: Path, pair: str, write: Callable[..., str]) -> None:
    images = write(tmp_path / "images", [[[1, 2]], [[3], [4]]], multimodal=True)
    assert "open it with multimodal=True" in refusal(images)
    assert "open it with multimodal=False" in refusal(pair, multimodal=True)


def test_an_index_is_pickled_by_name_not_by_content(pair: str) -> None:
    index = read_index(pair)
    data = pickle.dumps(index)
    assert len(data) < 300 + len(pair)
    assert pickle.loads(data).sequence_lengths.tolist() == index.sequence_lengths.tolist()


@pytest.mark.parametrize("mmap", [True, False])
@pytest.mark.parametrize("trials", [1000, pytest.param(100_000, marks=pytest.mark.slow)])
def test_random_damage_gives_arrays_or_one_line(pair: str, mmap: bool, trials: int) -> None:
    path = Path(pair + ".idx")
    sound = np.frombuffer(path.read_bytes(), np.uint8)
    rng = np.random.default_rng(1)
    for trial in range(trials):
        damaged = sound.copy()
        region = 34 if trial % 2 else sound.size
        where = rng.integers(0, region, rng.integers(1, 5))
        damaged[where] = rng.integers(0, 256, where.size)
        path.write_bytes(damaged.tobytes())
        try:
            dataset = IndexedDataset(pair, mmap=mmap)
            for i in range(len(dataset)):
                assert dataset[i].size == dataset.index.sequence_lengths[i]
        except DataError as error:
            assert "\n" not in str(error)
