"""Parts are cut between documents, and all parts together are the whole."""

import dataclasses
import hashlib
import json
import struct
import tempfile
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_metadata import METADATA

from mindformers_megatron.errors import ConfigError, DataError
from mindformers_megatron.format.index import read_index
from mindformers_megatron.format.merge import join_pairs, merge_pairs
from mindformers_megatron.format.metadata import Metadata, SourceInfo, check_metadata, read_metadata, write_metadata
from mindformers_megatron.format.provenance import DocsWriter
from mindformers_megatron.format.reader import IndexedDataset
from mindformers_megatron.format.split import Part, cut_by_documents, cut_by_tokens, cut_evenly, split_pair
from mindformers_megatron.format.writer import IndexedDatasetWriter

Write = Callable[..., str]
DOCUMENT = st.lists(st.lists(st.integers(0, 65_535), max_size=4), max_size=3)


def contents(prefix: str) -> tuple[bytes, bytes]:
    return Path(prefix + ".bin").read_bytes(), Path(prefix + ".idx").read_bytes()


def parts_of(folder: Path | str, cuts: list[int]) -> list[Part]:
    return [Part(f"{folder}/part{i:03}", begin, end) for i, (begin, end) in enumerate(pairwise(cuts))]


def sizes_of(cuts: list[int], tokens: list[int]) -> list[int]:
    return [sum(tokens[begin:end]) for begin, end in pairwise(cuts)]


def describe(prefix: str, files: list[str]) -> Metadata:
    """Gives a pair metadata and provenance; document d is line d + 1 of ``files[d]``."""
    index = read_index(prefix)
    bin_sha, idx_sha = (hashlib.sha256(content).hexdigest() for content in contents(prefix))
    metadata = dataclasses.replace(
        METADATA, dtype=index.dtype.name, documents=index.num_documents, sequences=index.num_sequences,
        tokens=index.num_tokens, bin_sha256=bin_sha, idx_sha256=idx_sha,
        sources=tuple(SourceInfo(path=file, size=9, sha256=None) for file in dict.fromkeys(files)),
    )  # fmt: skip
    with DocsWriter(prefix) as docs:
        for d, file in enumerate(files):
            docs.add([None], source="s", file=file, lines=[d + 1], byte_offsets=[0], metas=[None])
    write_metadata(prefix, metadata)
    return metadata


@given(st.lists(st.lists(st.integers(1, 9), min_size=1, max_size=4).map(lambda ids: [ids]), min_size=1, max_size=9),
       st.data())  # fmt: skip
@settings(max_examples=15)
def test_joining_the_parts_gives_the_whole(write: Write, documents: list[list[list[int]]], data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as folder:
        whole = write(f"{folder}/whole", documents)
        inner = data.draw(st.sets(st.integers(1, len(documents)), max_size=3))
        parts = parts_of(folder, sorted({0, *inner, len(documents)}))
        written = split_pair(whole, parts)
        for part, pair in zip(parts, written, strict=True):
            assert contents(part.prefix) == contents(write(f"{folder}/alone", documents[part.begin : part.end]))
            assert pair.bin_sha256 == hashlib.sha256(contents(part.prefix)[0]).hexdigest()
        join_pairs([part.prefix for part in parts], f"{folder}/joined")
        assert contents(f"{folder}/joined") == contents(whole)


def test_documents_of_every_kind_go_where_they_belong(tmp_path: Path, pair: str) -> None:
    split_pair(pair, parts_of(tmp_path, [0, 1, 3, 5]))
    parts = [IndexedDataset(tmp_path / f"part{i:03}") for i in range(3)]
    assert [[sequence.tolist() for sequence in part] for part in parts] == [
        [[5, 6, 7]],
        [[1, 2], [], [3]],
        [[9, 8, 7, 6], [4]],
    ]
    assert [part.index.document_indices.tolist() for part in parts] == [[0, 1], [0, 3, 3], [0, 1, 2]]


def test_modes_follow(tmp_path: Path, write: Write) -> None:
    whole = write(tmp_path / "whole", [[[1], [2]], [[3]]], multimodal=True)
    split_pair(whole, parts_of(tmp_path, [0, 1, 2]), multimodal=True)
    modes = IndexedDataset(tmp_path / "part000", multimodal=True).index.sequence_modes
    assert modes is not None
    assert modes.tolist() == [0, 0]


def test_metadata_and_provenance_follow_and_come_together_again(tmp_path: Path, pair: str) -> None:
    metadata = describe(pair, ["a.jsonl", "a.jsonl", "b.jsonl", "b.jsonl", "c.jsonl"])
    parts = parts_of(tmp_path, [0, 2, 5])
    split_pair(pair, parts)
    for part, files in zip(parts, (["a.jsonl"], ["b.jsonl", "c.jsonl"]), strict=True):
        described = read_metadata(part.prefix)
        assert described is not None
        check_metadata(described, read_index(part.prefix))
        assert [source.path for source in described.sources] == files
        assert described.tokenizer_fingerprint == metadata.tokenizer_fingerprint
        rows = pq.read_table(part.prefix + ".docs.parquet")["line"].to_pylist()
        assert rows == list(range(part.begin + 1, part.end + 1))
        sums = {hashlib.md5(content).hexdigest() for content in contents(part.prefix)}
        assert {line.split()[0] for line in Path(part.prefix + ".md5").read_text().splitlines()} == sums
    merged = merge_pairs([part.prefix for part in parts], tmp_path / "joined")
    assert (merged.has_metadata, merged.has_docs, merged.warnings) == (True, True, ())
    again = read_metadata(tmp_path / "joined")
    assert again is not None
    assert (again.fingerprint, again.sources) == (metadata.fingerprint, metadata.sources)
    assert pq.read_table(tmp_path / "joined.docs.parquet") == pq.read_table(pair + ".docs.parquet")


def test_provenance_longer_than_a_group_of_rows_is_cut_where_it_should_be(tmp_path: Path) -> None:
    whole = str(tmp_path / "whole")
    with IndexedDatasetWriter(whole, np.uint16) as writer:
        writer.add_documents(np.ones(280_000, np.uint16), np.ones(280_000, np.int64))
    with DocsWriter(whole) as docs:
        docs.add([None] * 280_000, source="s", file="f", lines=range(280_000), byte_offsets=range(280_000),
                 metas=[None] * 280_000)  # fmt: skip
    split_pair(whole, parts_of(tmp_path, [0, 131_072, 140_000, 280_000]))
    lines = [pq.read_table(tmp_path / f"part{i:03}.docs.parquet")["line"].to_numpy() for i in range(3)]
    np.testing.assert_array_equal(np.concatenate(lines), np.arange(280_000))
    assert [len(part) for part in lines] == [131_072, 8_928, 140_000]


@given(st.lists(st.integers(0, 6), min_size=1, max_size=12), st.integers(1, 9))
@settings(max_examples=40)
def test_parts_hold_as_many_tokens_as_fit(write: Write, tokens: list[int], per_part: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        index = read_index(write(f"{folder}/whole", [[[1] * count] if count else [] for count in tokens]))
    cuts = cut_by_tokens(index, per_part)
    assert (cuts[0], cuts[-1]) == (0, len(tokens))
    for begin, end in pairwise(cuts):
        size = sum(tokens[begin:end])
        assert size <= per_part or end == begin + 1
        assert end == len(tokens) or size + tokens[end] > per_part


@given(st.lists(st.integers(0, 6), min_size=1, max_size=12), st.data())
@settings(max_examples=40)
def test_even_parts_differ_by_no_more_than_a_document(write: Write, tokens: list[int], data: st.DataObject) -> None:
    parts = data.draw(st.integers(1, len(tokens)))
    with tempfile.TemporaryDirectory() as folder:
        index = read_index(write(f"{folder}/whole", [[[1] * count] if count else [] for count in tokens]))
    cuts = cut_evenly(index, parts)
    assert (len(cuts), cuts[0], cuts[-1]) == (parts + 1, 0, len(tokens))
    assert all(begin < end for begin, end in pairwise(cuts))
    # Where documents are small beside a part, no cut is further from its place than half a document.
    if sum(tokens) >= 2 * parts * max(tokens) and min(tokens) > 0:
        for place, cut in enumerate(cuts):
            assert abs(sum(tokens[:cut]) - place * sum(tokens) / parts) <= max(tokens) / 2


def test_parts_of_so_many_documents(pair: str) -> None:
    index = read_index(pair)
    assert [cut_by_documents(index, count) for count in (1, 2, 9)] == [[0, 1, 2, 3, 4, 5], [0, 2, 4, 5], [0, 5]]
    assert sizes_of(cut_by_documents(index, 2), [3, 3, 0, 4, 1]) == [6, 4, 1]


def test_what_cannot_be_is_refused(tmp_path: Path, pair: str) -> None:
    index = read_index(pair)
    for cut in (cut_by_documents, cut_by_tokens, cut_evenly):
        with pytest.raises(ConfigError, match="give 1 or more"):
            cut(index, 0)
    with pytest.raises(ConfigError, match="5 documents cannot be cut into 6 parts"):
        cut_evenly(index, 6)
    with pytest.raises(ConfigError, match="documents 2 to 3 of 5 have no tokens"):
        split_pair(pair, [Part(f"{tmp_path}/x", 0, 2), Part(f"{tmp_path}/y", 2, 3)])
    with pytest.raises(ConfigError, match="would overwrite"):
        split_pair(pair, [Part(f"{tmp_path}/./corpus.bin", 0, 2)])
    assert not [*tmp_path.glob("x*"), *tmp_path.glob("y*")]


def test_damage_where_parts_meet_is_found(tmp_path: Path, write: Write) -> None:
    whole = write(tmp_path / "whole", [[[1]], [[2]], [[3]], [[4]]])
    path = Path(whole + ".idx")
    content = path.read_bytes()
    pointer = 34 + 4 * 4 + 8 * 2
    path.write_bytes(content[:pointer] + struct.pack("<q", 2) + content[pointer + 8 :])
    with pytest.raises(DataError, match="sequence 1 ends at byte 4, but what follows is at byte 2"):
        split_pair(whole, parts_of(tmp_path, [0, 2, 4]))
    assert not list(tmp_path.glob("part*"))


def test_provenance_of_another_pair_is_refused(tmp_path: Path, pair: str) -> None:
    describe(pair, ["a.jsonl"])
    with pytest.raises(DataError, match="1 rows, but the pair has 5 documents"):
        split_pair(pair, parts_of(tmp_path, [0, 5]))
    Path(pair + ".metadata.json").write_text(json.dumps({"schema_version": 1}))
    with pytest.raises(DataError, match="no field tokenizer"):
        split_pair(pair, parts_of(tmp_path, [0, 5]))
