"""Documents come back from a shard as they went in; a damaged one is told."""

import hashlib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mindformers_megatron.corpus import shards
from mindformers_megatron.corpus.documents import Document, Origin
from mindformers_megatron.corpus.shards import ShardWriter, count_documents, read_columns, read_shard, write_shard
from mindformers_megatron.errors import DataError
from tests.corpus.documents import document, unicode_texts

json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | unicode_texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(unicode_texts, inner, max_size=3),
    max_leaves=5,
)
any_documents = st.builds(
    Document,
    text=unicode_texts,
    id=unicode_texts,
    source=unicode_texts,
    origin=st.builds(Origin, unicode_texts, st.integers(1, 2**62), st.integers(-1, 2**62)),
    meta=st.dictionaries(unicode_texts, json_values, max_size=3),
)


@settings(max_examples=50)
@given(st.lists(any_documents, max_size=20))
def test_documents_come_back_as_they_went_in(
    tmp_path_factory: pytest.TempPathFactory, documents: list[Document]
) -> None:
    path = tmp_path_factory.mktemp("shard") / "a.parquet"
    assert write_shard(path, documents) == len(documents)
    assert [document for group in read_shard(path) for document in group] == documents
    assert count_documents(path) == len(documents)


def test_the_bytes_depend_on_the_documents_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shards, "_GROUP_ROWS", 7)
    documents = [document(f"text {number}" * number, number) for number in range(100)]
    hashes = set()
    for size in (1, 3, 100):
        with ShardWriter(tmp_path / "a.parquet") as writer:
            for first in range(0, 100, size):
                writer.add(documents[first : first + size])
        hashes.add(hashlib.sha256((tmp_path / "a.parquet").read_bytes()).hexdigest())
    assert len(hashes) == 1
    assert [len(group) for group in read_shard(tmp_path / "a.parquet")] == [*[7] * 14, 2]


def test_columns_are_read_without_the_others(tmp_path: Path) -> None:
    write_shard(tmp_path / "a.parquet", [document("one", 1), document("two", 2)])
    (table,) = read_columns(tmp_path / "a.parquet", ["id", "source"])
    assert table.to_pydict() == {"id": ["d1", "d2"], "source": ["web", "web"]}


def test_a_shard_that_fails_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError), ShardWriter(tmp_path / "a.parquet") as writer:
        writer.add([document("x")])
        raise RuntimeError
    assert list(tmp_path.iterdir()) == []


def test_a_damaged_or_foreign_file_is_told(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    with pytest.raises(DataError, match=r"a\.parquet: not found"):
        list(read_shard(path))
    write_shard(path, [document(f"some text {number}", number) for number in range(1000)])
    data = bytearray(path.read_bytes())
    path.write_bytes(data[:-20])
    with pytest.raises(DataError, match="cannot be read as Parquet"):
        list(read_shard(path))
    data[len(data) // 4] ^= 0xFF
    path.write_bytes(data)
    with pytest.raises(DataError, match="cannot be read as Parquet"):
        list(read_shard(path))
