"""A real preparation and a real run to report on: Python's own documentation, with some of it planted twice."""

import json
import random
from itertools import islice
from pathlib import Path

import yaml

from mindformers_megatron import SamplePlan
from mindformers_megatron.cli.main import run
from mindformers_megatron.demo.collect import collect
from mindformers_megatron.demo.tokenizer import train_tokenizer

TEXTS = {"prose": 400, "manuals": 30, "code": 12}
# The run is as far as this, by the state that it left.
STEP = 121
RECIPE = {
    "output": "corpus",
    "sources": {name: f"raw/{name}.jsonl" for name in (*TEXTS, "chinese")},
    "evaluation": {"quiz": {"paths": ["raw/quiz.jsonl"], "keys": ["question"]}},
    "steps": [
        "unicode",
        "whitespace",
        "pii",
        {"length": {"min_characters": 40}},
        "exact_dedup",
        "near_dedup",
        "decontaminate",
    ],
    "tokenizer": "tokenizer",
    "packing": {"seq_length": 128},
}
CHINESE = (
    "机器学习研究计算机如何从数据中改进。联系我 someone@example.com 或者 13812345678。",
    "训练数据的质量决定模型的上限，重复的数据教不了新的东西，配比要符合预期才行。",
    "同一段文字在网页上往往出现许多次，只在页眉和页脚上略有不同。",
)


def prepare(folder: Path) -> Path:
    """Carries a recipe out in a folder, which must be the working one; returns the YAML of a run over its corpora.

    The run is in the middle: it has left a data state, as it would beside a checkpoint.
    """
    (folder / "raw").mkdir()
    generator = random.Random(3)
    learned: list[str] = []
    for name, count in TEXTS.items():
        rows = [{"id": text.name, "text": text.text} for text in islice(collect(name), count)]
        learned += [row["text"] for row in rows]
        _write(folder / "raw" / f"{name}.jsonl", [*rows, *_copies(rows, generator)])
    _write(folder / "raw" / "quiz.jsonl", [{"question": text} for text in learned if 300 < len(text) < 700][:5])
    chinese = [{"id": f"zh-{place}", "text": CHINESE[place % 3] * 4 + str(place)} for place in range(9)]
    _write(folder / "raw" / "chinese.jsonl", chinese)
    train_tokenizer([*learned, *CHINESE], 4096, folder / "tokenizer")
    (folder / "recipe.yaml").write_text(yaml.safe_dump(RECIPE, sort_keys=False))
    assert run(["prepare", "recipe.yaml"]) == 0
    loader = yaml.safe_load((folder / "corpus" / "train.yaml").read_text())["train_dataset"]["data_loader"]
    loader |= {"dataset_weights": [0.4, 0.25, 0.3, 0.05], "num_samples": 1600, "loss_mask": "boundary"}
    config = {
        "output_dir": "output",
        "runner_config": {"batch_size": 8},
        "train_dataset": {"data_loader": {**loader, "reset_position_ids": True}},
    }
    (folder / "run.yaml").write_text(yaml.safe_dump(config, sort_keys=False))
    state = SamplePlan.build(**{name: value for name, value in loader.items() if name != "type"}).state(STEP * 8)
    (folder / "output").mkdir()
    saved = {**json.loads(state.to_json()), "step": STEP, "global_batch_size": 8}
    (folder / "output" / "data_state.json").write_text(json.dumps(saved))
    return folder / "run.yaml"


def _copies(rows: list[dict[str, str]], generator: random.Random) -> list[dict[str, str]]:
    copies = []
    for row in generator.sample(rows, len(rows) // 8):
        words = row["text"].split(" ")
        if len(words) > 30:
            words[generator.randrange(len(words))] = "revised"
            copies.append({"id": f"{row['id']}, revised", "text": " ".join(words)})
    return copies


def _write(path: Path, rows: list[dict[str, str]]) -> None:
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
