"""A recipe with an index of documents of earlier runs."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from corpus.prepare.carrying_out import Watcher, digests, ids
from corpus.prepare.raw_texts import recipe, write_raw

from mindformers_megatron.corpus.dedup.near import NearOptions
from mindformers_megatron.corpus.dedup.near_index import NearIndex
from mindformers_megatron.corpus.prepare.additions import claim_indexes
from mindformers_megatron.corpus.prepare.report import write_report
from mindformers_megatron.corpus.prepare.run import Selection, carry_out
from mindformers_megatron.corpus.recipe_file import read_recipe
from mindformers_megatron.execution.engines import LocalEngine


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    write_raw(tmp_path / "raw")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def growing(**changes: Any) -> dict[str, Any]:
    values = recipe(Path("raw"), **changes)
    values["steps"][3] = {"near_dedup": {"index": "kept"}}
    values["steps"][4] = {"decontaminate": {"ngram": 8, "action": "drop"}}
    return values


def prepare(values: dict[str, Any]) -> Watcher:
    made, watcher = read_recipe(values, "recipe.yaml"), Watcher()
    with claim_indexes(made) as indexes:
        outcome = carry_out(made, LocalEngine(1), watcher, Selection())
        assert outcome is not None
        write_report(outcome)
        indexes.add(outcome)
    return watcher


def segment(index: Path) -> tuple[bytes, ...]:
    return tuple(path.read_bytes() for path in sorted(index.glob("000001.*")))


def test_what_is_kept_to_the_end_joins_the_index_and_nothing_else(place: Path) -> None:
    prepare(growing())
    index = NearIndex(place / "kept", NearOptions())
    held = index.ids(np.arange(len(index)))
    assert len(held) == len({*held}) and {*held} == ids(place / "out")
    assert not any(id_.startswith("leak") for id_ in held)


def test_carried_out_again_a_recipe_does_nothing_and_ends_the_same(place: Path) -> None:
    prepare(growing())
    before, held = digests(place / "out"), segment(place / "kept")
    done = prepare(growing())
    assert ("near_dedup", "comparing") not in done.begun
    assert digests(place / "out") == before and segment(place / "kept") == held


def test_the_index_does_not_depend_on_how_texts_are_cut_into_shards(place: Path) -> None:
    prepare(growing())
    whole = segment(place / "kept")
    (place / "kept").rename(place / "first")
    prepare(growing(output="other", part_mb=0.01))
    assert segment(place / "kept") == whole


def test_another_recipe_keeps_only_what_is_new(place: Path) -> None:
    prepare(growing())
    write_raw(place / "later", seed=8)
    values = growing(output="second")
    values["sources"] = {"both": ["later/web.jsonl", "raw/web.jsonl"]}
    prepare(values)
    kept = ids(place / "second")
    assert kept and len(NearIndex(place / "kept", NearOptions())) == len(ids(place / "out")) + len(kept)
