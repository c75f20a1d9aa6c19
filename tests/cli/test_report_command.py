"""``mfm report`` on what it may be pointed at."""

import json
from pathlib import Path

import pytest
import yaml
from pairs import write_corpus

from mindformers_megatron.cli.main import run

OUTPUT = "report.html"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data").mkdir()
    for name in ("wiki", "data/code"):
        write_corpus(tmp_path / name, [[5, 6, 7, 0]] * 30)
    loader = {"type": "BlendedMegatronDataLoader", "dataset_dir": ["wiki", "data/code"], "seq_length": 8}
    config = {"train_dataset": {"data_loader": loader}, "runner_config": {"batch_size": 2}}
    (tmp_path / "run.yaml").write_text(yaml.safe_dump(config))
    return tmp_path


def page(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def test_a_run_by_its_yaml(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["report", "run.yaml"]) == 0
    assert capsys.readouterr().out == "report.html\n"
    assert 'id="mix"' in page(folder / OUTPUT)
    assert 'id="samples"' in page(folder / OUTPUT)


def test_a_run_by_its_output_folder(folder: Path) -> None:
    (folder / "output").mkdir()
    (folder / "run.yaml").rename(folder / "output" / "config.yaml")
    assert run(["report", "output", "train_dataset.data_loader.seq_length=4"]) == 0
    assert 'id="mix"' in page(folder / OUTPUT)


def test_what_a_run_wrote_down_is_drawn_and_compared(folder: Path) -> None:
    config = yaml.safe_load((folder / "run.yaml").read_text())
    config["callbacks"] = [{"type": "MegatronMixMonitor", "path": "mix.jsonl"}]
    (folder / "run.yaml").write_text(yaml.safe_dump(config))
    corpora = {name: {"share": 0.5, "asked": 0.5, "samples": 5} for name in ("wiki", "code")}
    (folder / "mix.jsonl").write_text(json.dumps({"samples": [0, 10], "corpora": corpora, "checked_rows": 2}) + "\n")
    assert run(["report", "run.yaml"]) == 0
    shown = page(folder / OUTPUT)
    assert shown.count('class="dot"') == 2
    assert "agrees with the plan in every report (1); rows of real batches compared: 2" in shown
    (folder / "mix.jsonl").write_text("{}\n")
    assert run(["report", "run.yaml"]) == 1


def test_a_folder_of_pairs(folder: Path) -> None:
    (folder / "work").mkdir()
    write_corpus(folder / "work" / "unfinished", [[1, 2]])
    assert run(["report", ".", "-o", "pairs.html"]) == 0
    shown = page(folder / "pairs.html")
    assert "wiki.bin" in shown
    assert "data/code.bin" in shown
    assert "unfinished" not in shown
    assert 'id="mix"' not in shown


def test_a_recipe_by_what_it_made(folder: Path) -> None:
    (folder / "recipe.yaml").write_text("output: data\nsources: {}\n")
    assert run(["report", "recipe.yaml"]) == 0
    assert "data/code.bin" in page(folder / OUTPUT)


def test_how_much_is_shown_is_asked_for(folder: Path) -> None:
    assert run(["report", "run.yaml", "--samples", "3", "--documents", "20"]) == 0
    text = page(folder / OUTPUT).split('id="data">')[1].split("</script>")[0]
    data = json.loads(text)
    assert len(data["samples"]) == 3
    assert len(data["documents"]) == 20
    assert run(["report", "run.yaml", "--samples", "0", "--documents", "0"]) == 0
    assert 'id="samples"' not in page(folder / OUTPUT)


def test_pictures_are_drawn_where_they_are_asked_for(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["report", "run.yaml", "--png", "pictures"]) == 0
    assert capsys.readouterr().out.splitlines() == [OUTPUT, "pictures/mix.png", "pictures/lengths.png"]
    for name in ("mix", "lengths"):
        assert (folder / "pictures" / f"{name}.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["nowhere"], "nowhere: no such file or folder"),
        (["empty"], "neither data_stats.json nor a .bin/.idx pair"),
        (["other.yaml"], "neither the YAML of a run"),
        (["unmade.yaml"], "its output later is not there yet"),
        (["run.yaml", "--samples", "-1"], "--samples is -1"),
        (["run.yaml", "--tokenizer", "nowhere"], "no tokenizer.json"),
        ([".", "seed=3"], "is not the YAML of a run"),
    ],
)
def test_what_cannot_be_reported_on_is_one_line(
    folder: Path, words: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "empty").mkdir()
    (folder / "other.yaml").write_text("a: 1\n")
    (folder / "unmade.yaml").write_text("output: later\n")
    assert run(["report", *words]) == 2
    error = capsys.readouterr().err
    assert says in error
    assert error.count("\n") == 1
    assert not (folder / OUTPUT).exists()
