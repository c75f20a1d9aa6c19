"""What is finished is not done again, and what depends on a change is."""

import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from corpus.prepare.carrying_out import digests, prepare
from corpus.prepare.raw_texts import recipe, write_raw

from mindformers_megatron.corpus.prepare.folder import OutputFolder
from mindformers_megatron.errors import ConfigError


@pytest.fixture
def raw(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    write_raw(tmp_path / "raw", documents=40)
    monkeypatch.chdir(tmp_path)
    return Path("raw")


def written(output: Path) -> dict[str, int]:
    """When each shard was written."""
    return {str(path.relative_to(output)): path.stat().st_mtime_ns for path in output.glob("work/*/kept/*.parquet")}


def redone(raw: Path, changed: dict[str, Any]) -> set[str]:
    """The stages of which shards are written anew when a finished recipe is carried out with changes."""
    before = written(Path("out"))
    prepare(recipe(raw, **changed))
    after = written(Path("out"))
    return {name.split("/")[1] for name in after if after[name] != before.get(name)}


def test_a_finished_recipe_does_nothing(raw: Path) -> None:
    prepare(recipe(raw))
    came_out = digests(Path("out"))
    pairs = {path: path.stat().st_mtime_ns for path in Path("out/corpora").iterdir()}
    assert redone(raw, {}) == set()
    assert digests(Path("out")) == came_out
    assert {path: path.stat().st_mtime_ns for path in Path("out/corpora").iterdir()} == pairs


def test_a_changed_step_redoes_what_depends_on_it(raw: Path) -> None:
    prepare(recipe(raw))
    steps = recipe(raw)["steps"]
    later = {"exact_dedup", "near_dedup", "decontaminate", "splits"}
    assert redone(raw, {"steps": [*steps[:4], {"decontaminate": {"ngram": 9}}]}) == {"decontaminate", "splits"}
    assert redone(raw, {"steps": [*steps[:3], {"near_dedup": {"threshold": 0.9}}, *steps[4:]]}) == later - {
        "exact_dedup"
    }
    assert redone(raw, {"steps": steps[1:]}) == later | {"read"}
    assert redone(raw, {"steps": steps[1:], "splits": {"validation": 3}}) == {"splits"}
    assert redone(raw, {"steps": steps[1:], "splits": {"validation": 3}, "packing": {"append_eod": False}}) == set()


def test_what_comes_out_after_changes_is_what_comes_out_at_once(raw: Path) -> None:
    changed = {"steps": ["whitespace", "near_dedup", "exact_dedup"], "evaluation": None}
    prepare(recipe(raw))
    prepare(recipe(raw, **changed))
    changed_later = digests(Path("out"))
    for table in ("decontaminate.parquet",):
        changed_later.pop(table, None)
    shutil.rmtree("out")
    prepare(recipe(raw, **changed))
    assert digests(Path("out")) == changed_later


def test_a_file_that_is_added_or_written_to_redoes_its_own_part_of_the_reading(raw: Path) -> None:
    prepare(recipe(raw))
    before = written(Path("out"))
    news = raw / "news.jsonl.gz"
    os.utime(news, ns=(1, 1))
    prepare(recipe(raw))
    after = written(Path("out"))
    (changed,) = (name for name in after if after[name] != before.get(name) and "/read/" in f"/{name}")
    assert "news-" in changed


def test_what_was_removed_is_made_again(raw: Path) -> None:
    prepare(recipe(raw))
    came_out = digests(Path("out"))
    next(Path("out/work/near_dedup/kept").glob("web-*.parquet")).unlink()
    (Path("out/corpora") / "web_train_text_document.bin").unlink()
    prepare(recipe(raw))
    assert digests(Path("out")) == came_out


def test_from_a_stage_on_all_is_done_anew(raw: Path) -> None:
    prepare(recipe(raw))
    before = written(Path("out"))
    prepare(recipe(raw), start="near_dedup")
    after = written(Path("out"))
    stages = {name.split("/")[1] for name in after if after[name] != before[name]}
    assert stages == {"near_dedup", "decontaminate", "splits"}


def test_two_runs_do_not_share_a_folder(raw: Path) -> None:
    with OutputFolder(Path("out")).claim(), pytest.raises(ConfigError, match="another process is writing it"):
        prepare(recipe(raw))
    prepare(recipe(raw))


def test_what_a_killed_run_was_in_the_midst_of_writing_is_removed(raw: Path) -> None:
    prepare(recipe(raw))
    came_out = digests(Path("out"))
    left_over = [Path("out/work/read/kept/a.parquet.1-2.tmp"), Path("out/train.yaml.3-4.tmp")]
    left_over += [Path("out/.tokenizer.5-6.tmp/tokenizer.json.5-7.tmp"), Path("out/corpora/web.bin.tmp")]
    for path in left_over:
        path.parent.mkdir(exist_ok=True)
        path.touch()
    prepare(recipe(raw))
    assert not list(Path("out").rglob("*.tmp"))
    assert digests(Path("out")) == came_out
