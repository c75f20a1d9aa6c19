"""Single documents are looked up in a file of many row groups."""

from pathlib import Path

import pytest

from mindformers_megatron.errors import DataError
from mindformers_megatron.format.provenance import DocsWriter
from mindformers_megatron.format.provenance_rows import DocRows, documents_with_id

DOCUMENTS = 300_000


@pytest.fixture(scope="module")
def prefix(tmp_path_factory: pytest.TempPathFactory) -> Path:
    prefix = tmp_path_factory.mktemp("docs") / "x"
    with DocsWriter(prefix) as writer:
        for first in range(0, DOCUMENTS, 1000):
            numbers = range(first, first + 1000)
            writer.add(
                [None if number % 7 == 0 else f"id-{number % 200_000}" for number in numbers],
                source="wiki",
                file="wiki.jsonl",
                lines=[number + 1 for number in numbers],
                byte_offsets=[0] * 1000,
                metas=[None] * 1000,
            )
    return prefix


def test_rows_are_those_of_the_documents_across_groups(prefix: Path) -> None:
    rows = DocRows(prefix)
    assert len(rows) == DOCUMENTS
    for begin, end in ((0, 2), (131_000, 132_000), (262_143, 262_146), (299_999, 300_000), (5, 5)):
        assert [row["line"] for row in rows.rows(begin, end)] == list(range(begin + 1, end + 1))
    with pytest.raises(DataError, match="asked for rows"):
        list(rows.rows(0, DOCUMENTS + 1))


def test_documents_are_found_by_their_id_as_often_as_it_stands_there(prefix: Path) -> None:
    assert documents_with_id(prefix, "id-12") == [12, 200_012]
    assert documents_with_id(prefix, "id-199999") == [199_999]
    assert documents_with_id(prefix, "id-7") == [200_007]
    assert documents_with_id(prefix, "") == documents_with_id(prefix.with_name("nowhere"), "id-12") == []


def test_a_pair_without_documents_has_none_to_find(tmp_path: Path) -> None:
    with DocsWriter(tmp_path / "empty"):
        pass
    assert len(DocRows(tmp_path / "empty")) == 0
    assert documents_with_id(tmp_path / "empty", "id-1") == []
