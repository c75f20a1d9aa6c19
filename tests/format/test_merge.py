"""Joined pairs are what one writer would have written."""

import hashlib
import os
import struct
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mindformers_megatron.errors import ConfigError, DataError
from mindformers_megatron.format.copying import append_file
from mindformers_megatron.format.hashing import Hashes
from mindformers_megatron.format.merge import join_pairs
from mindformers_megatron.format.reader import IndexedDataset

Write = Callable[..., str]
DOCUMENT = st.lists(st.lists(st.integers(0, 65_535), max_size=4), max_size=3)


def contents(prefix: str) -> tuple[bytes, bytes]:
    return Path(prefix + ".bin").read_bytes(), Path(prefix + ".idx").read_bytes()


@given(st.lists(st.lists(DOCUMENT, max_size=4), min_size=1, max_size=4), st.booleans())
@settings(max_examples=40)
def test_the_parts_together_are_the_whole(write: Write, parts: list[list[list[list[int]]]], hashed: bool) -> None:
    with tempfile.TemporaryDirectory() as folder:
        prefixes = [write(f"{folder}/part{i}", documents) for i, documents in enumerate(parts)]
        whole = write(f"{folder}/whole", [document for documents in parts for document in documents])
        written = join_pairs(prefixes, f"{folder}/joined", sha256=hashed)
        assert contents(f"{folder}/joined") == contents(whole)
        digests = [hashlib.sha256(content).hexdigest() if hashed else None for content in contents(whole)]
        assert [written.bin_sha256, written.idx_sha256] == digests
        joined = IndexedDataset(f"{folder}/joined")
        counts = (joined.num_documents, joined.num_sequences, joined.num_tokens)
        assert counts == (written.num_documents, written.num_sequences, written.num_tokens)


def test_indexes_longer_than_a_chunk_are_joined(tmp_path: Path, write: Write) -> None:
    part = write(tmp_path / "part", [[[i % 7] * (i % 3)] for i in range(135_000)])
    join_pairs([part, part], tmp_path / "joined")
    joined, index = IndexedDataset(tmp_path / "joined").index, IndexedDataset(part).index
    np.testing.assert_array_equal(joined.sequence_lengths, np.tile(index.sequence_lengths, 2))
    np.testing.assert_array_equal(joined.document_indices, np.arange(270_001))
    assert joined.sequence_pointers[135_000] == Path(part + ".bin").stat().st_size


def test_modes_are_joined(tmp_path: Path, write: Write) -> None:
    part = write(tmp_path / "part", [[[1], [2]]], multimodal=True)
    join_pairs([part, part], tmp_path / "joined", multimodal=True)
    modes = IndexedDataset(tmp_path / "joined", multimodal=True).index.sequence_modes
    assert modes is not None
    assert modes.tolist() == [0] * 4


def test_parts_of_different_dtype_are_refused_saying_which_have_which(tmp_path: Path, pair: str, write: Write) -> None:
    wide = write(tmp_path / "wide", [[[1]]], np.int32)
    with pytest.raises(DataError, match=r"uint16 in \S*/corpus, \S*/corpus; int32 in \S*/wide;"):
        join_pairs([pair, pair, wide], tmp_path / "joined")
    assert not list(tmp_path.glob("joined*"))


def test_no_parts_and_a_result_among_the_parts_are_refused(tmp_path: Path, pair: str) -> None:
    with pytest.raises(ConfigError, match="no parts"):
        join_pairs([], tmp_path / "joined")
    with pytest.raises(ConfigError, match="one of the parts"):
        join_pairs([pair], os.path.relpath(pair))


@pytest.mark.parametrize(
    ("position", "value", "named"),
    [
        (34 + 4 * 2, struct.pack("<i", -1), "sequence 2 is -1 tokens"),
        (34 + 4 * 3, struct.pack("<i", 2), "sequence 4 "),
        (34 + 4 * 6 + 8 * 3, struct.pack("<q", 2), "sequence 3 is 1 tokens at byte 2"),
        (34 + 12 * 6 + 8 * 2, struct.pack("<q", 5), "document 2 ends before it begins"),
        (34 + 12 * 6 + 8 * 3, struct.pack("<q", -9), "document 2 ends before it begins"),
    ],
)
def test_damage_in_the_middle_of_an_index_is_found_while_joining(
    tmp_path: Path, pair: str, position: int, value: bytes, named: str
) -> None:
    path = Path(pair + ".idx")
    content = path.read_bytes()
    path.write_bytes(content[:position] + value + content[position + len(value) :])
    with pytest.raises(DataError, match=named):
        join_pairs([pair], tmp_path / "joined")
    assert not list(tmp_path.glob("joined*"))


@pytest.mark.parametrize("hashed", [True, False])
def test_a_file_that_ends_early_is_a_data_error(tmp_path: Path, hashed: bool) -> None:
    source = tmp_path / "source"
    source.write_bytes(b"12345")
    with (tmp_path / "target").open("wb") as target, pytest.raises(DataError, match="ends at byte 5, expected 6"):
        append_file(source, 6, target.fileno(), Hashes(sha256=hashed, md5=False))


def test_a_target_that_the_kernel_cannot_copy_to_gets_the_bytes_all_the_same(tmp_path: Path) -> None:
    # Neither copy_file_range nor sendfile writes to a file opened for appending or to a pipe in every kernel.
    source = tmp_path / "source"
    source.write_bytes(os.urandom(100_000))
    with (tmp_path / "target").open("ab") as target:
        append_file(source, 100_000, target.fileno(), Hashes(sha256=False, md5=False))
    assert (tmp_path / "target").read_bytes() == source.read_bytes()
