"""A mistake in the settings is one line before the model is built: by ``mfm train``, and through MindFormers alike."""

import json
import subprocess
import sys
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import yaml

from mindformers_megatron.format.metadata import Metadata, TokenizerInfo, write_metadata

pytestmark = pytest.mark.train

ROOT = Path(__file__).parents[2]

# What is changed in the settings, how the error begins, and what it says. "order" only mfm train can see: MindFormers
# takes the names of the arguments away before it builds a dataset.
CASES: dict[str, tuple[dict[str, Any], str]] = {
    "unknown option": ({"data_loader": {"seq_lenght": 3}}, "unknown option 'seq_lenght'; did you mean seq_length?"),
    "weights too few": ({"data_loader": {"dataset_weights": [1, 2]}}, "dataset_weights has 2 entries for 3 corpora"),
    "negative weight": ({"data_loader": {"dataset_weights": [1, -2, 1]}}, "is -2; expected a finite number"),
    "missing file": ({"data_loader": {"dataset_dir": ["gone.bin"], "dataset_weights": [1]}}, "gone"),
    "missing column": (
        {"data_loader": {"create_compressed_eod_mask": True}, "input_columns": ["input_ids", "labels"]},
        "actual_seq_len is asked for and missing among them",
    ),
    "unknown column": ({"input_columns": ["input_ids", "lables"]}, "columns is 'lables'"),
    "column order": (
        {
            "data_loader": {"create_compressed_eod_mask": True},
            "input_columns": ["input_ids", "actual_seq_len", "labels"],
        },
        "the last must be actual_seq_len",
    ),
    "vocabulary": ({"model": {"vocab_size": 100}}, "model.model_config.vocab_size is 100"),
    "end of document": ({"model": {"eos_token_id": 7}}, "model.model_config.eos_token_id is 7"),
    "length": ({"model": {"seq_length": 64}}, "model.model_config.seq_length is 64"),
    "config": ({"data_loader": {"config": "mine.json"}}, "config is 'mine.json'; expected the mapping"),
}


@pytest.fixture(scope="module")
def outcomes(corpora: list[str], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("bad input")
    config = yaml.safe_load((ROOT / "configs" / "pretrain_llama_cpu.yaml").read_text())
    section = config["train_dataset"]
    del section["input_columns"], section["construct_args_key"], config["train_dataset_task"]
    section["data_loader"] |= {"dataset_dir": with_metadata(corpora, folder), "seq_length": 32, "num_samples": 40}
    config["model"]["model_config"] |= {"seq_length": 32, "eos_token_id": 0}
    asked = {}
    for name, (change, _) in CASES.items():
        changed = deepcopy(config)
        changed["train_dataset"]["data_loader"] |= change.get("data_loader", {})
        changed["train_dataset"] |= {key: value for key, value in change.items() if key == "input_columns"}
        changed["model"]["model_config"] |= change.get("model", {})
        asked[name] = changed
    script = Path(__file__).parent / "plugins" / "bad_input.py"
    done = subprocess.run(
        [sys.executable, str(script)], input=json.dumps(asked), cwd=folder, capture_output=True, text=True
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith("ANSWER ")]
    assert done.returncode == 0 and lines, done.stdout + done.stderr
    answer: dict[str, Any] = json.loads(lines[0].removeprefix("ANSWER "))
    return answer


def with_metadata(corpora: list[str], folder: Path) -> list[str]:
    """Links to the corpora, with metadata that names a vocabulary of 512 and the end of document 0."""
    from mindformers_megatron.format.reader import IndexedDataset

    made = []
    for path in corpora:
        prefix = folder / Path(path).stem
        for suffix in (".bin", ".idx"):
            prefix.with_suffix(suffix).symlink_to(Path(path).with_suffix(suffix))
        pair = IndexedDataset(prefix)
        tokenizer = TokenizerInfo(
            name="ours", kind="NullTokenizer", files={}, library="none", library_version="1", engine="none",
            engine_version="1",
        )  # fmt: skip
        metadata = Metadata(
            tokenizer=tokenizer, vocab_size=512, eod_id=0, dtype="uint16", documents=pair.num_documents,
            sequences=pair.num_sequences, tokens=pair.num_tokens, bin_sha256="0" * 64, idx_sha256="0" * 64,
            created="2026-01-01T00:00:00+00:00", program_version="1",
        )  # fmt: skip
        write_metadata(prefix, metadata)
        made.append(str(prefix))
    return made


@pytest.mark.parametrize("name", CASES)
def test_a_mistake_is_one_line(outcomes: dict[str, Any], name: str) -> None:
    kind, message = outcomes[name]["built"]
    assert kind in ("ConfigError", "DataError") and CASES[name][1] in message and "\n" not in message
    assert message.startswith("BlendedMegatronDataLoader: ")
    printed = outcomes[name]["printed"].splitlines()
    assert outcomes[name]["code"] == (1 if kind == "DataError" else 2)
    assert len(printed) == 1 and printed[0].startswith("mfm train: ") and CASES[name][1] in printed[0]
