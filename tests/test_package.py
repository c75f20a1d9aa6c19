"""What the package promises before anything is read: light imports, exit codes, one-line errors."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from pairs import GOLDEN

HEAVY = ("mindspore", "mindformers", "transformers", "tokenizers", "pyarrow", "numpy", "tqdm", "yaml")


def loaded_after(statement: str) -> set[str]:
    code = f"import sys\n{statement}\nprint(*sorted(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return {name.partition(".")[0] for name in done.stdout.splitlines()[-1].split()}


def mfm(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "mindformers_megatron.cli", *words], capture_output=True, text=True)


@pytest.mark.parametrize(
    "statement",
    [
        "import mindformers_megatron",
        "from mindformers_megatron.cli.main import run\ntry: run(['--help'])\nexcept SystemExit: pass",
    ],
    ids=["import", "help"],
)
def test_importing_and_asking_for_help_load_nothing_heavy(statement: str) -> None:
    assert not loaded_after(statement).intersection(HEAVY)


@pytest.mark.parametrize(
    "module",
    [
        "format.reader",
        "format.writer",
        "sampling.plan",
        "tokenization.preprocess",
        "cli.preprocess",
        "cli.trace",
        "report.trace",
    ],
)
def test_the_offline_half_and_the_plan_never_load_mindspore(module: str) -> None:
    loaded = loaded_after(f"import mindformers_megatron.{module}")
    assert not loaded.intersection({"mindspore", "mindformers", "transformers"})


def test_public_names_come_on_first_use() -> None:
    import mindformers_megatron

    for name in mindformers_megatron.__all__:
        assert getattr(mindformers_megatron, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = mindformers_megatron.nothing


def test_help_lists_every_command() -> None:
    from mindformers_megatron.cli.main import COMMANDS

    done = mfm("--help")
    assert done.returncode == 0
    for command in COMMANDS:
        assert command in done.stdout
        assert mfm(command, "--help").returncode == 0


@pytest.mark.parametrize("words", [[], ["nonsense"], ["preprocess", "--nonsense"]])
def test_wrong_usage_exits_with_2(words: list[str]) -> None:
    done = mfm(*words)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr


def test_a_reader_that_has_seen_enough_ends_a_command_quietly(tmp_path: Path) -> None:
    config = tmp_path / "run.yaml"
    loader = {"type": "BlendedMegatronDataLoader", "dataset_dir": str(GOLDEN / "sampling" / "wiki"), "seq_length": 64}
    config.write_text(json.dumps({"train_dataset": {"data_loader": loader}}))
    command = [sys.executable, "-m", "mindformers_megatron.cli", "trace", "--config", str(config), "--sample", "0:5000"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=tmp_path)
    assert process.stdout is not None
    process.stdout.readline()
    process.stdout.close()
    _, errors = process.communicate()
    assert process.returncode == 141
    assert errors == b""
