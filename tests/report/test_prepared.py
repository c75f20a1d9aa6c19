"""What a preparation left is read, or refused in one line."""

import json
from pathlib import Path
from typing import Any

import pytest
from report_pages import hostile_preparation

from mindformers_megatron.errors import DataError
from mindformers_megatron.report.findings import findings
from mindformers_megatron.report.found_texts import with_texts
from mindformers_megatron.report.prepared import NAME, read_prepared


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return hostile_preparation(tmp_path)


def test_counts_add_up_over_sources(folder: Path) -> None:
    prepared = read_prepared(folder / NAME)
    (first, *_) = prepared.steps
    assert first.total("documents_in") == sum(counts.documents_in for counts in first.sources.values()) == 24
    assert first.dropped.total() == first.total("documents_in") - first.total("documents_out") == 12


def test_clusters_and_spans_get_their_texts(folder: Path) -> None:
    prepared = with_texts(read_prepared(folder / NAME), folder)
    assert len(prepared.clusters) == 12
    for cluster in prepared.clusters:
        assert cluster.size == 2
        (copy,) = cluster.copies
        assert cluster.kept.text[:15] == copy.document.text[:15]
        assert len(copy.document.text) <= 2000
    assert prepared.spans
    assert all(span.start == 2 and span.end == 20 for span in prepared.spans)


def test_texts_that_are_no_longer_kept_are_left_out(folder: Path) -> None:
    for shard in (folder / "work").rglob("*.parquet"):
        shard.unlink()
    prepared = with_texts(read_prepared(folder / NAME), folder)
    assert (prepared.clusters, prepared.spans) == ((), ())


def test_what_was_taken_out_is_no_longer_to_be_checked(folder: Path) -> None:
    found = {finding.words: finding.check for finding in findings(read_prepared(folder / NAME), None)}
    assert found["find.whole_items"] is False
    assert found["find.taken_out"] is False
    assert found["find.rejects"] is True


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (["steps"], None),
        (["steps", 0, "step"], 5),
        (["steps", 0, "sources"], []),
        (["steps", 0, "examples"], {"a": [{}]}),
        (["sources"], {"a": {}}),
        (["name"], ["x"]),
        (["global_steps", 0, "step"], "elsewhere"),
        (["global_steps", 1, "sets", 0, "whole"], True),
        (["languages"], {"a": {"en": "five"}}),
    ],
)
def test_a_damaged_file_is_one_line(folder: Path, path: list[Any], value: Any) -> None:
    values = json.loads((folder / NAME).read_text())
    place = values
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    (folder / NAME).write_text(json.dumps(values))
    with pytest.raises(DataError, match=r"make it again") as caught:
        read_prepared(folder / NAME)
    assert "\n" not in str(caught.value)


def test_a_damaged_table_is_one_line(folder: Path) -> None:
    (folder / "near_dedup.parquet").write_bytes(b"PAR1 nothing")
    with pytest.raises(DataError, match="cannot be read as Parquet"):
        with_texts(read_prepared(folder / NAME), folder)
