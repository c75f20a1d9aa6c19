"""``mfm prepare`` and the commands that do one of its steps, as people type them."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from corpus.prepare.raw_texts import recipe, write_raw

from mindformers_megatron.format.metadata import read_metadata
from mindformers_megatron.format.reader import IndexedDataset


@pytest.fixture
def place(tmp_path: Path) -> Path:
    write_raw(tmp_path / "raw", documents=40)
    (tmp_path / "recipe.yaml").write_text(yaml.safe_dump(recipe(Path("raw"))))
    return tmp_path


def mfm(place: Path, *arguments: str, code: int = 0) -> "subprocess.CompletedProcess[str]":
    done = subprocess.run(
        [sys.executable, "-m", "mindformers_megatron.cli", *arguments], cwd=place, capture_output=True, text=True
    )
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    return done


def test_a_recipe_is_carried_out_and_told_in_short(place: Path) -> None:
    plan = mfm(place, "prepare", "recipe.yaml", "--dry-run").stdout
    assert "  exact_dedup: exact_dedup\n" in plan and "sample of books: book00.txt" in plan
    assert "to compare about 7" in plan and "  near_dedup: " in plan and " MB of memory, 0.0 MB on disk" in plan
    assert not (place / "out").exists()
    told = mfm(place, "prepare", "recipe.yaml", "splits={}", "--workers", "1", "--remove-work").stdout
    assert told.startswith("77 documents read, 65 kept")
    assert "out/corpora/web_train_text_document.bin/.idx: " in told
    assert not (place / "out" / "work").exists()
    assert (place / "out" / "train.yaml").is_file()


def test_settings_may_stand_before_between_and_behind_options(place: Path) -> None:
    several = ("output=here", "--workers", "1", "splits={}", "--dry-run", "seed=3")
    plan = mfm(place, "prepare", "recipe.yaml", *several).stdout
    assert plan == mfm(place, "prepare", "--dry-run", "recipe.yaml", "splits={}", "seed=3", "output=here").stdout
    refused = mfm(place, "prepare", "recipe.yaml", "--dry-run", "seed=3", "--sed=4", code=2).stderr
    assert "unrecognized arguments: --sed=4" in refused


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("nothing.yaml",), 1, "nothing.yaml: cannot be read"),
        (("recipe.yaml", "steps.0=unicod"), 2, "steps: 1: unknown step 'unicod'; did you mean unicode?"),
        (("recipe.yaml", "sources.web.paths=[no.jsonl]"), 1, "no.jsonl: cannot be read: No such file or directory"),
        (("recipe.yaml", "--only", "tokenise"), 2, "did you mean tokenize?"),
        (("recipe.yaml", "--only", "tokenize"), 2, "stage read: 3 of 3 shards are not finished"),
        (("recipe.yaml", "--workers", "0"), 2, "workers is 0; give 1 or more"),
        (("recipe.yaml", "--address", "auto"), 2, "give --engine ray"),
        (("recipe.yaml", "--train"), 2, "--train needs a recipe with a tokenizer and with training.base_config"),
    ],
)
def test_mistakes_are_one_line(place: Path, arguments: tuple[str, ...], code: int, message: str) -> None:
    error = mfm(place, "prepare", *arguments, code=code).stderr
    assert message in error and error.count("\n") == 1
    assert not (place / "out").exists()


def test_one_step_after_the_other_leads_to_the_raw_records(place: Path) -> None:
    one = ["--workers", "1"]
    mfm(place, "clean", "raw/web.jsonl", "raw/news.jsonl.gz", "--output", "a.jsonl.gz", "--step", "unicode", *one)
    mfm(place, "dedup", "a.jsonl.gz", "--output", "b.parquet", "--exact", "document", "--near", "0.7", *one)
    told = mfm(
        place, "decontaminate", "b.parquet", "--against", "raw/quiz.jsonl", "--ngram", "8", "--output", "c.jsonl", *one
    )
    assert ", 53 kept in c.jsonl" in told.stdout
    raw = [json.loads(line) for line in (place / "raw/web.jsonl").read_text().splitlines()]
    for line in (place / "c.jsonl").read_text().splitlines():
        record = json.loads(line)
        origin = record["meta"]["origin"]
        if origin["file"] == "raw/web.jsonl":
            assert raw[origin["line"] - 1]["id"] == record["id"]
            assert raw[origin["line"] - 1]["text"] == record["text"]
    assert (place / "b.parquet.near_dedup.parquet").is_file()
    assert (place / "c.jsonl.stats_report.txt").is_file()
    assert not [path for path in place.iterdir() if path.name.endswith((".work", ".tmp"))]


def test_what_cannot_be_read_or_written_is_refused_before_the_work(place: Path) -> None:
    error = mfm(place, "clean", "raw/web.jsonl", "--output", "a.csv", code=2).stderr
    assert "let it end in .jsonl" in error
    missing = mfm(place, "clean", "no.jsonl", "--output", "a.jsonl", "--step", "html", code=1).stderr
    assert "no.jsonl: cannot be read" in missing and not list(place.glob("a.jsonl*"))
    assert "there is no folder" in mfm(place, "clean", "raw/web.jsonl", "--output", "no/a.jsonl", code=2).stderr


def test_the_script_makes_one_dataset_of_a_folder_of_files(place: Path) -> None:
    (place / "raw" / "books 'of old'.jsonl").write_text(
        "".join(
            json.dumps({"text": f"chapter {number} of the book about {number * 7} rivers"}) + "\n"
            for number in range(40)
        )
    )
    (place / "evaluation").mkdir()
    (place / "raw" / "quiz.jsonl").rename(place / "evaluation" / "quiz.jsonl")
    script = Path(__file__).parents[2] / "tools" / "prepare_dataset.sh"
    settings = {
        "RAW_DATA_DIR": "raw", "PROCESSED_DIR": "processed", "OUTPUT_PREFIX": "mine", "EVALUATION_DIR": "evaluation",
        "VOCAB_SIZE": "300", "SEQ_LENGTH": "16", "STEPS": "unicode, exact_dedup", "VALIDATION": "4", "WORKERS": "1",
    }  # fmt: skip
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    for _ in range(2):
        done = subprocess.run(
            [script], cwd=place, env={**os.environ, **settings, "PATH": path}, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
    page = (place / "processed" / "stats_report.txt").read_text()
    assert "--- Dataset Statistics: mine ---" in page and "- Sequence Length: 16" in page
    assert "- books 'of old'.jsonl: " in page and "- news.jsonl.gz: " in page
    dataset = IndexedDataset(str(place / "processed" / "mine_text_document"))
    kept = json.loads((place / "processed" / "data_stats.json").read_bytes())["splits"]
    assert dataset.num_documents == kept["train"]["documents"] and kept["validation"]["documents"] == 4
    assert read_metadata(dataset.prefix) is not None
