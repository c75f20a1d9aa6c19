"""A YAML of MindFormers' own loader with only the type renamed: its own samples, in its own order."""

from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import yaml
from mindformers_helper import compiled_mindformers
from pairs import MakeCorpus
from test_training_runs import Run, digest

from mindformers_megatron.errors import ConfigError

pytestmark = pytest.mark.train

ROWS, EPOCHS = 4, 2
# Not a multiple of the rows: what is left over is dropped at the end of each epoch.
SIZES = [90, 12, 0]


@pytest.fixture(scope="module")
def mindformers(tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    return compiled_mindformers(tmp_path_factory.mktemp("helpers"))


@pytest.fixture
def config(make_corpus: MakeCorpus, tmp_path: Path) -> dict[str, Any]:
    random = np.random.default_rng(7)
    prefixes = [
        make_corpus(name, [[*random.integers(1, 500, length).tolist(), 0] for length in random.integers(1, 50, count)])
        for name, count in (("wiki", 80), ("code", 50), ("chat", 30))
    ]
    path = [item for pair in zip(["5", "3", "2"], prefixes, strict=True) for item in pair]
    cache = str(tmp_path / "cache")
    return {"data_path": path, "split": "90, 10, 0", "seq_length": 32, "seed": 77, "eod": 0, "path_to_cache": cache}


def columns_of(config: dict[str, Any]) -> list[str]:
    last = "actual_seq_len" if config.get("create_compressed_eod_mask") else "attention_mask"
    shown = [last] if last == "actual_seq_len" or config.get("create_attention_mask", True) else []
    return ["input_ids", "labels", "loss_mask", "position_ids", *shown]


def rows_of(dataset: Any) -> dict[str, np.ndarray]:
    """All rows of the epochs, one after the other."""
    iterator = dataset.create_dict_iterator(num_epochs=EPOCHS, output_numpy=True)
    batches = [batch for _ in range(EPOCHS) for batch in iterator]
    return {name: np.concatenate([batch[name] for batch in batches]) for name in batches[0]}


def theirs(config: dict[str, Any], sizes: list[Any], phase: str) -> dict[str, np.ndarray]:
    from mindformers.dataset.dataloader.blended_megatron_dataloader import MegatronDatasetBuilder

    builder = MegatronDatasetBuilder(datasets_type="GPTDataset", config=config)
    dataset = builder.builder(sizes, columns_of(config), phase=phase).batch(ROWS, drop_remainder=True)
    # What MindFormers' trainer does with a loader of its own type.
    size = sizes[0 if phase == "train" else 1]
    return rows_of(dataset.take(size // ROWS) if size else dataset)


def ours(config: dict[str, Any], sizes: list[Any], phase: str) -> dict[str, np.ndarray]:
    from mindformers.dataset import CausalLanguageModelDataset
    from mindformers.tools.register import MindFormerConfig

    import mindformers_megatron.loader  # noqa: F401

    loader = {"type": "BlendedMegatronDataLoader", "datasets_type": "GPTDataset", "sizes": sizes, "config": config}
    dataset = CausalLanguageModelDataset(
        dataset_config=MindFormerConfig(
            data_loader={**loader, "phase": phase}, input_columns=columns_of(config), batch_size=ROWS,
            drop_remainder=True, num_parallel_workers=1, micro_batch_num=ROWS,
        )
    )  # fmt: skip
    return rows_of(dataset)


@pytest.mark.parametrize(
    "masks, sizes, phase",
    [
        ({"reset_position_ids": True, "reset_attention_mask": True, "eod_mask_loss": True}, SIZES, "train"),
        ({"create_compressed_eod_mask": True, "eod_pad_length": 24, "reset_position_ids": True}, SIZES, "train"),
        ({"create_attention_mask": False}, SIZES, "valid"),
        ({"create_attention_mask": False, "data_path": "one corpus"}, SIZES, "train"),
        ({"create_attention_mask": False, "data_path": "no weights"}, SIZES, "train"),
        ({"create_attention_mask": False, "data_path": "no weights"}, [None, None, None], "train"),
        ({"create_attention_mask": False, "split": None, "train_data_path": True}, SIZES, "train"),
    ],
    ids=["dense mask", "compressed mask", "validation", "one corpus", "no weights", "all there is", "own files"],
)
def test_rows_of_a_run_equal_the_built_in_loaders(
    mindformers: ModuleType, config: dict[str, Any], masks: dict[str, Any], sizes: list[Any], phase: str
) -> None:
    prefixes = config["data_path"][1::2]
    config |= masks
    if config["data_path"] == "one corpus":
        config["data_path"] = prefixes[:1]
    elif config["data_path"] == "no weights":
        config["data_path"] = prefixes
    elif config.pop("train_data_path", None):
        config["train_data_path"] = config.pop("data_path")
        del config["split"]
    expected, got = theirs(config, sizes, phase), ours(config, sizes, phase)
    assert set(got) == set(expected)
    for name, column in expected.items():
        assert np.array_equal(got[name], column), name


@pytest.mark.slow
def test_it_trains_with_nothing_but_the_type_renamed(config: dict[str, Any], tmp_path: Path) -> None:
    run = Run(tmp_path / "run", {"dataset_dir": [], "seq_length": 32})
    path = run.folder / "run.yaml"
    settings = yaml.safe_load(path.read_text())
    config |= {"create_attention_mask": False, "eod_mask_loss": True}
    loader = {"type": "BlendedMegatronDataLoader", "datasets_type": "GPTDataset", "sizes": [32, 0, 0], "config": config}
    settings["train_dataset"] = {"data_loader": loader, "num_parallel_workers": 1, "drop_remainder": True}
    settings["model"]["model_config"] |= {"eos_token_id": 0}
    path.write_text(yaml.safe_dump(settings))
    run.train()
    assert run.ended == 0, run.console
    steps = run.steps()
    assert len(steps) == EPOCHS * 32 // ROWS
    rows = [row for step in sorted(steps) for row in steps[step][0]]
    # Each epoch gives the samples of the first again, as with MindFormers' own loader.
    assert rows == [digest(row) for row in ours(config, [32, 0, 0], "train")["input_ids"].tolist()]
    assert rows[:32] == rows[32:]


def test_an_option_called_config_must_be_its_mapping(corpora: list[str]) -> None:
    from mindformers.dataset import build_dataset_loader

    import mindformers_megatron.loader  # noqa: F401

    options = {"type": "BlendedMegatronDataLoader", "dataset_dir": corpora, "seq_length": 32, "config": "mine.json"}
    with pytest.raises(ConfigError, match=r"config is 'mine\.json'; expected the mapping") as caught:
        build_dataset_loader(options)
    assert "\n" not in str(caught.value)


def test_megatrons_order_without_repetition_ends_with_its_last_whole_batch(config: dict[str, Any]) -> None:
    from mindformers_megatron.loader import BlendedMegatronDataLoader

    loader = BlendedMegatronDataLoader(
        config["data_path"][1::2], seq_length=32, order="megatron", num_samples=50, micro_batch_size=ROWS, seed=1
    )
    batches = list(loader.create_iterator())
    rows = np.concatenate([batch["input_ids"] for batch in batches])
    assert len(rows) == len(loader.plan) // ROWS * ROWS == loader.consumed_samples
    assert np.array_equal(rows, loader.plan.read(np.arange(len(rows)))["input_ids"])
