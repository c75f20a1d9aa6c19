"""``mfm blend``: the mix of a run in numbers, before any training."""

import json
from pathlib import Path

import pytest
import yaml
from pairs import MakeCorpus

from mindformers_megatron.cli.main import run


@pytest.fixture
def config(make_corpus: MakeCorpus, tmp_path: Path) -> Path:
    loader = {
        "type": "BlendedMegatronDataLoader",
        "dataset_dir": [make_corpus("wiki", [500, 500]), make_corpus("code", [3000]), make_corpus("chat", [64])],
        "dataset_weights": [0.5, 0.3, 0.2],
        "seq_length": 32,
        "num_samples": 100,
        "num_parallel_workers": 2,
    }
    path = tmp_path / "run.yaml"
    path.write_text(yaml.safe_dump({"train_dataset": {"data_loader": loader}, "runner_config": {"epochs": 2}}))
    return path


def test_it_shows_the_whole_run_and_warns_of_many_epochs(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["blend", "--config", str(config)]) == 0
    shown = capsys.readouterr()
    lines = [line.split() for line in shown.out.splitlines()]
    assert lines[1][:6] == ["corpus", "tokens", "weight", "share", "samples", "epochs"]
    assert lines[2][:6] == ["wiki", "1,000", "0.5", "50.0000%", "100", "3.12"]
    assert lines[3][:6] == ["code", "3,000", "0.3", "30.0000%", "60", "0.638"]
    assert lines[4][:6] == ["chat", "64", "0.2", "20.0000%", "40", "20"]
    assert "chat is repeated 20.0 times in 200 samples" in shown.err
    assert "wiki" not in shown.err


def test_it_warns_of_corpora_that_are_never_reached(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    weights = "train_dataset.data_loader.dataset_weights=[0.999, 0.001, 0.0]"
    assert run(["blend", "--config", str(config), "--samples", "10", "--json", weights]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert [row["samples"] for row in shown["corpora"]] == [10, 0, 0]
    assert [note.split(" is ")[0] for note in shown["warnings"]] == ["code", "chat"]


def test_a_run_that_goes_beyond_max_epochs_is_refused_with_the_numbers(
    config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["blend", "--config", str(config), "train_dataset.data_loader.max_epochs=4"]) == 2
    assert "200 samples take 40 from chat (64 tokens), which is 20.000 epochs" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--samples", "0"], "--samples is 0"),
        (["--dataset", "eval_dataset"], "eval_dataset.data_loader names no loader"),
        (["train_dataset.data_loader.seq_lenght=5"], "did you mean seq_length"),
    ],
)
def test_wrong_usage_is_one_line(config: Path, words: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["blend", "--config", str(config), *words]) == 2
    error = capsys.readouterr().err
    assert says in error
    assert error.count("\n") == 1
