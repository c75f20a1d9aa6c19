"""A recipe, from raw files to pairs: what is planted is found, and nothing depends on how the work is done."""

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import yaml
from corpus.prepare.carrying_out import Watcher, digests, ids, prepare
from corpus.prepare.raw_texts import recipe, write_raw

from mindformers_megatron.errors import ConfigError, DataError
from mindformers_megatron.execution.engines import LocalEngine
from mindformers_megatron.format.metadata import read_metadata
from mindformers_megatron.format.reader import IndexedDataset
from mindformers_megatron.sampling.plan import SamplePlan
from mindformers_megatron.sampling.spec import PlanSpec


@pytest.fixture(scope="module")
def raw(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    folder = tmp_path_factory.mktemp("raw") / "raw"
    return folder, write_raw(folder)


@pytest.fixture(scope="module")
def straight(raw: tuple[Path, dict[str, Any]], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that a run without incidents has filled."""
    with pytest.MonkeyPatch.context() as patch:
        home = tmp_path_factory.mktemp("straight")
        patch.chdir(home)
        prepare(recipe(raw[0]))
    return home / "out"


def statistics(output: Path) -> dict[str, Any]:
    values: dict[str, Any] = json.loads((output / "data_stats.json").read_bytes())
    return values


def test_what_is_planted_is_dropped_and_all_else_is_kept(raw: tuple[Path, dict[str, Any]], straight: Path) -> None:
    planted = raw[1]
    kept = ids(straight)
    assert not kept & set(planted["contaminated"])
    # Of a page and its copy, or its edited copy, one is kept: the first in the file.
    for kind, names in (("copy", planted["copies"]), ("near", planted["near"])):
        for name in names:
            number = name.split("-")[1]
            assert len(kept & {f"{kind}-{number}", f"web-{number}"}) == 1
    # The source of higher priority keeps what another one has too.
    assert "news-copy" in kept and "web-5" not in kept
    assert len(kept) == 120 - 1 + 41 + 12


def test_every_document_is_in_one_part(straight: Path) -> None:
    parts = [ids(straight, part=part) for part in ("train", "validation", "test")]
    assert sum(map(len, parts)) == len(set.union(*parts)) == len(ids(straight))
    assert len(parts[2]) == 5
    assert len(parts[1]) == round(0.1 * len(ids(straight)))


def test_a_pair_leads_back_to_the_raw_records(raw: tuple[Path, dict[str, Any]], straight: Path) -> None:
    prefix = straight / "corpora" / "web_train_text_document"
    docs = pq.read_table(f"{prefix}.docs.parquet").to_pylist()
    assert len(docs) == IndexedDataset(str(prefix)).num_documents
    for row in docs:
        assert row["file"] == str(raw[0] / "web.jsonl") and row["source"] == "web"
        with Path(row["file"]).open("rb") as file:
            file.seek(row["byte_offset"])
            record = json.loads(file.readline())
        assert record["id"] == row["id"]
        assert json.loads(row["meta"]) == record["meta"] if record["meta"] else row["meta"] is None


def test_a_pair_holds_the_texts_of_its_documents(raw: tuple[Path, dict[str, Any]], straight: Path) -> None:
    from tokenizers import Tokenizer

    records = [json.loads(line) for line in (raw[0] / "web.jsonl").read_text().splitlines()]
    texts = {record["id"]: record["text"] for record in records}
    tokenizer = Tokenizer.from_file(str(straight / "tokenizer" / "tokenizer.json"))
    prefix = straight / "corpora" / "web_train_text_document"
    pair = IndexedDataset(str(prefix))
    for number, row in enumerate(pq.read_table(f"{prefix}.docs.parquet").to_pylist()):
        assert tokenizer.decode(pair[number].tolist(), skip_special_tokens=True) == texts[row["id"]]


def test_the_metadata_name_the_raw_files_and_the_rules(raw: tuple[Path, dict[str, Any]], straight: Path) -> None:
    metadata = [read_metadata(straight / "corpora" / f"{name}_train_text_document") for name in ("web", "books")]
    assert all(found is not None for found in metadata)
    web, books = metadata
    assert web is not None and books is not None
    assert [source.path for source in web.sources] == [str(raw[0] / "web.jsonl")]
    assert len(books.sources) == 12
    assert web.options["recipe"] == books.options["recipe"]
    assert web.tokenizer_fingerprint == books.tokenizer_fingerprint


def test_the_counts_of_every_step_add_up(raw: tuple[Path, dict[str, Any]], straight: Path) -> None:
    values = statistics(straight)
    assert [step["step"] for step in values["steps"]] == [
        "read", "unicode", "whitespace", "exact_dedup", "near_dedup", "decontaminate",
    ]  # fmt: skip
    before: dict[str, Any] = {}
    for step in values["steps"]:
        for source, counts in step["sources"].items():
            if source in before:
                assert counts["documents_in"] == before[source]["documents_out"]
                assert counts["bytes_in"] == before[source]["bytes_out"]
            assert counts["documents_in"] - counts["documents_out"] == sum(counts["dropped"].values())
            assert sum(counts["lengths"].values()) == counts["documents_out"]
        before = step["sources"]
    for source, counts in before.items():
        assert counts["documents_out"] == sum(part["documents"] for part in values["kept"][source].values())
    assert sum(part["train"]["share"] for part in values["kept"].values()) == pytest.approx(1, abs=1e-5)
    tokens = {(row["source"], row["split"]): row["tokens"] for row in values["corpora"]}
    assert {key: values["kept"][key[0]][key[1]]["tokens"] for key in tokens} == tokens
    (contamination,) = (step for step in values["global_steps"] if step["kind"] == "decontaminate")
    named = {document["id"] for item in contamination["items"] for document in item["first_documents"]}
    assert named == set(raw[1]["contaminated"])


def test_what_was_dropped_can_be_looked_up(raw: tuple[Path, dict[str, Any]], straight: Path) -> None:
    planted = raw[1]
    exact = pq.read_table(straight / "exact_dedup.parquet").to_pylist()
    assert len(exact) == len(planted["copies"]) + 1
    assert {"id": "web-5", "kept_id": "news-copy"}.items() <= next(row for row in exact if row["id"] == "web-5").items()
    near = pq.read_table(straight / "near_dedup.parquet").to_pylist()
    assert len(near) == len(planted["near"])
    assert all(row["similarity"] >= 0.7 and row["id"].split("-")[1] == row["kept_id"].split("-")[1] for row in near)
    spans = pq.read_table(straight / "decontaminate.parquet").to_pylist()
    assert {row["id"] for row in spans} == set(planted["contaminated"])


def test_the_page_for_people_has_what_they_look_for(straight: Path) -> None:
    page = (straight / "stats_report.txt").read_text()
    for line in ("--- Dataset Statistics: out ---", "Tokenizer Info:", "- Vocab Size: 400", "- Sequence Length: 32"):
        assert line in page.splitlines()
    assert "- web: " in page and "tokens (" in page
    assert "- near_dedup: duplicate: 12" in page


def test_the_training_yaml_makes_a_plan_with_shares_by_tokens(straight: Path) -> None:
    values = yaml.safe_load((straight / "train.yaml").read_text())
    options = values["train_dataset"]["data_loader"]
    assert options.pop("type") == "BlendedMegatronDataLoader"
    plan = SamplePlan(PlanSpec.from_options(options))
    tokens = [IndexedDataset(path).num_tokens for path in options["dataset_dir"]]
    for row, count in zip(plan.table(1000), tokens, strict=True):
        assert row.share == pytest.approx(count / sum(tokens), abs=1e-4)


@pytest.mark.parametrize("part_mb", [0.01, 0.03])
def test_nothing_depends_on_how_many_shards_there_are(
    raw: tuple[Path, dict[str, Any]], straight: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, part_mb: float
) -> None:
    monkeypatch.chdir(tmp_path)
    outcome = prepare(recipe(raw[0], part_mb=part_mb, memory_gb=0.0001))
    assert outcome is not None and len(outcome.parts) > 3
    ours, theirs = digests(tmp_path / "out"), digests(straight)
    ours.pop("train.yaml"), theirs.pop("train.yaml")
    assert ours == theirs


def test_nothing_depends_on_how_many_work(
    raw: tuple[Path, dict[str, Any]], straight: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    prepare(recipe(raw[0], part_mb=0.02), LocalEngine(2))
    ours, theirs = digests(tmp_path / "out"), digests(straight)
    ours.pop("train.yaml"), theirs.pop("train.yaml")
    assert ours == theirs


def test_nothing_is_left_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("blank.jsonl").write_text('{"text": "  "}\n')
    with pytest.raises(DataError, match="no document is left"):
        prepare({"output": "out", "sources": {"blank": "blank.jsonl"}, "report": {"languages": False}})


def test_a_stage_alone_needs_those_before_it(
    raw: tuple[Path, dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match=r"stage read: 3 of 3 shards are not finished"):
        prepare(recipe(raw[0]), only="near_dedup")
    assert prepare(recipe(raw[0]), only="whitespace") is None
    assert not Path("out/work/exact_dedup/kept").exists()
    with pytest.raises(ConfigError, match=r"no stage or step 'near_dedupe'.*did you mean near_dedup"):
        prepare(recipe(raw[0]), only="near_dedupe")
    watcher = Watcher()
    assert prepare(recipe(raw[0]), only="exact_dedup", watcher=watcher) is None
    assert {stage for stage, _ in watcher.begun} == {"read", "exact_dedup"}


def test_records_that_cannot_be_read_are_listed_up_to_as_many_as_may_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("a", "b"):
        Path(f"{name}.jsonl").write_text('{"text": "one"}\n{"txt": "two"}\nthree\n')
    values = {"output": "out", "sources": {"a": "a.jsonl", "b": "b.jsonl"}, "report": {"languages": False}}
    with pytest.raises(DataError, match=r"a.jsonl, line 2 .* mend it"):
        prepare(values)
    with pytest.raises(DataError, match=r"b.jsonl, line 3 .* 4 records cannot be read, and on_error allows 3"):
        prepare({**values, "on_error": 3})
    prepare({**values, "on_error": 4})
    assert statistics(Path("out"))["sources"]["b"]["rejected_records"] == 2
    listed = [json.loads(line) for line in Path("out/rejected.jsonl").read_text().splitlines()]
    assert [(row["file"], row["line"]) for row in listed] == [
        ("a.jsonl", 2), ("a.jsonl", 3), ("b.jsonl", 2), ("b.jsonl", 3),
    ]  # fmt: skip
