"""Arrays and samples that megatron-core itself produced; see tests/golden/README.md."""

import hashlib
import json
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from megatron_reference import index_of
from pairs import GOLDEN

from mindformers_megatron.format.reader import IndexedDataset
from mindformers_megatron.sampling.boundaries import eod_marks
from mindformers_megatron.sampling.columns import ColumnOptions
from mindformers_megatron.sampling.layout import Layout, ReadTokens
from mindformers_megatron.sampling.megatron_blend import MegatronBlend, blend_sizes
from mindformers_megatron.sampling.megatron_order import MegatronOrder
from mindformers_megatron.sampling.pieces import Part, RowTokens
from mindformers_megatron.sampling.splits import parse_split, split_range

FOLDER = GOLDEN / "sampling"
MANIFEST = json.loads((FOLDER / "manifest.json").read_text())
PARTS = [
    (case, which, size)
    for case in MANIFEST["cases"]
    for which, size in zip(("train", "valid", "test"), case["sizes"], strict=True)
    if f"{which}.length" in np.load(FOLDER / f"{case['name']}.npz")
]


@dataclass(frozen=True)
class Ours:
    corpora: list[IndexedDataset]
    orders: list[MegatronOrder]
    blend: MegatronBlend | None


def ours(case: dict[str, Any], which: Any, size: int) -> Ours:
    names, weights = case["blend"]
    corpora = [IndexedDataset(FOLDER / name) for name in names]
    single = len(names) == 1 and weights is None
    used, built = blend_sizes(weights, size) if weights is not None else ([], [size if single else None] * len(names))
    orders = [
        MegatronOrder.build(
            corpus.index,
            *split_range(parse_split(case["split"]), which, corpus.num_sequences),
            num_samples=number,
            seq_length=case["seq"],
            seed=case["seed"],
        )
        for corpus, number in zip(corpora, built, strict=True)
    ]
    available = [len(order) for order in orders]
    if single:
        return Ours(corpora, orders, None)
    if weights is None:
        return Ours(corpora, orders, MegatronBlend.of_sizes(available, size))
    return Ours(corpora, orders, MegatronBlend.of_weights(weights, used, available))


def same(mine: np.ndarray, golden: np.ndarray) -> None:
    assert mine.dtype == golden.dtype
    assert np.array_equal(mine, golden)


@pytest.mark.parametrize(("case", "which", "size"), PARTS, ids=[f"{case['name']}-{which}" for case, which, _ in PARTS])
def test_every_array_and_sample_is_megatrons(case: dict[str, Any], which: str, size: int) -> None:
    golden = np.load(FOLDER / f"{case['name']}.npz")
    mine = ours(case, which, size)
    seen = {f"{which}.length", f"{which}.picks"}
    for place, order in enumerate(mine.orders):
        for name in ("document_index", "sample_index", "shuffle_index"):
            same(order.arrays[name], golden[f"{which}.{place}.{name}"])
            seen.add(f"{which}.{place}.{name}")
    if mine.blend is not None:
        same(mine.blend.dataset_index, golden[f"{which}.dataset_index"])
        same(mine.blend.dataset_sample_index, golden[f"{which}.dataset_sample_index"])
        seen |= {f"{which}.dataset_index", f"{which}.dataset_sample_index"}
    assert int(golden[f"{which}.length"]) == len(mine.orders[0] if mine.blend is None else mine.blend)

    picks = golden[f"{which}.picks"]
    columns = read(mine, picks, case)
    for name, column in columns.items():
        expected = golden[f"{which}.{name}"]
        assert np.array_equal(column, expected), name
        seen.add(f"{which}.{name}")
    assert seen >= {name for name in golden if name.startswith(which)}


def read(mine: Ours, picks: np.ndarray, case: dict[str, Any]) -> dict[str, np.ndarray]:
    """The samples ``picks``, with the options by which Megatron's reset_* and eod_mask_loss are had."""
    reset = case.get("reset", False)
    corpus, cursor = (np.zeros_like(picks), picks) if mine.blend is None else mine.blend.locate(picks)
    parts, counted = [], np.empty(picks.size, dtype=np.int64)
    for place in np.unique(corpus).tolist():
        rows = np.flatnonzero(corpus == place)
        pieces = mine.orders[place].pieces(cursor[rows])
        parts.append(Part(mine.corpora[place], pieces, rows))
        counted[rows] = pieces.counted
    options = ColumnOptions(
        names=("input_ids", "labels", "loss_mask", "position_ids", "attention_mask"),
        loss_mask="eod" if reset else "none",
        reset_position_ids=reset,
        reset_attention_mask=reset,
        eod_id=MANIFEST["eod"],
    )
    pieces = RowTokens(parts, picks.size, case["seq"] + 1, pad_id=0)
    tokens = pieces.read(0, picks.size)
    marks = eod_marks(tokens, MANIFEST["eod"], pieces.filled)
    columns = Layout(ReadTokens(tokens), marks, marks, counted, options, case["seq"]).columns()
    named = {
        "tokens": columns["input_ids"],
        "labels": columns["labels"],
        "loss_mask": columns["loss_mask"],
        "position_ids": columns["position_ids"],
    }
    return named | ({"attention_mask_blocked": columns["attention_mask"][:, 0]} if reset else {})


def digest(array: np.ndarray) -> str:
    return hashlib.sha256(array.astype(np.int64).tobytes()).hexdigest()[:16]


def test_the_corpora_of_megatrons_own_cache_test_give_megatrons_arrays() -> None:
    # tests/unit_tests/data/test_prepare_cache.py of Megatron-LM d98e8a64: four corpora of 32 documents of 64 tokens.
    index, shares = index_of([64] * 32), parse_split("70,20,10")
    orders = {
        which: MegatronOrder.build(index, *split_range(shares, which, 32), num_samples=None, seq_length=16, seed=1234)
        for which in ("train", "valid", "test")
    }
    train = orders["train"]
    assert digest(train.document_index) == "0611dc98ed4cd53b"
    assert digest(train.sample_index) == "d0d9c9dd215e7978"
    assert digest(train.shuffle_index) == "1e5c6016e43b8aaf"
    for which, size, expected in [
        ("train", 32, "30924011a791cc32"),
        ("valid", 48, "fbb0917e7814e235"),
        ("test", 16, "e25dc0179960dcc4"),
    ]:
        blend = MegatronBlend.of_sizes([len(orders[which])] * 4, size)
        assert len(blend) == size
        assert digest(blend.dataset_index) == expected
    used, _ = blend_sizes([0.4, 0.3, 0.2, 0.1], 500)
    weighted = MegatronBlend.of_weights([0.4, 0.3, 0.2, 0.1], used, [500] * 4)
    assert len(weighted) == 504
    assert digest(weighted.dataset_index) == "8e33b07d5aff848a"
