"""``order: megatron`` through the plan: the very rows that Megatron itself gave."""

import json
from typing import Any

import numpy as np
import pytest
from pairs import GOLDEN, MakeCorpus

from mindformers_megatron import SamplePlan
from mindformers_megatron.errors import ConfigError

FOLDER = GOLDEN / "sampling"
CASES = json.loads((FOLDER / "manifest.json").read_text())["cases"]


def plan_of(case: dict[str, Any], part: str, samples: int, **options: object) -> SamplePlan:
    names, weights = case["blend"]
    masks = {"loss_mask": "eod", "reset_position_ids": True, "reset_attention_mask": True} if case.get("reset") else {}
    columns = ["input_ids", "labels", "loss_mask", "position_ids", "attention_mask"]
    return SamplePlan.build(
        [str(FOLDER / name) for name in names],
        **{
            "dataset_weights": weights,
            "order": "megatron",
            "seq_length": case["seq"],
            "seed": case["seed"],
            "split": case["split"],
            "split_part": part,
            "num_samples": samples,
            "boundaries": "eod",
            "eod_id": 0,
            "columns": columns,
            **masks,
            **options,
        },
    )


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_rows_equal_megatrons(case: dict[str, Any]) -> None:
    golden = np.load(FOLDER / f"{case['name']}.npz")
    for part, samples in zip(("train", "valid", "test"), case["sizes"], strict=True):
        if f"{part}.picks" not in golden:
            continue
        plan = plan_of(case, part, samples)
        assert len(plan) == golden[f"{part}.length"]
        rows = plan.read(golden[f"{part}.picks"])
        assert np.array_equal(rows["input_ids"], golden[f"{part}.tokens"])
        assert np.array_equal(rows["labels"], golden[f"{part}.labels"])
        assert np.array_equal(rows["loss_mask"], golden[f"{part}.loss_mask"])
        assert np.array_equal(rows["position_ids"], golden[f"{part}.position_ids"])
        if f"{part}.attention_mask_blocked" in golden:
            assert np.array_equal(rows["attention_mask"][:, 0] == 1, golden[f"{part}.attention_mask_blocked"])


def test_the_index_gives_the_boundaries_that_eod_tokens_give_where_every_document_ends_in_one() -> None:
    case = next(case for case in CASES if case["name"] == "eod_masked_reset")
    by_eod, by_index = (plan_of(case, "train", 60, boundaries=kind) for kind in ("eod", "index"))
    ours, megatrons = by_index.read(np.arange(150)), by_eod.read(np.arange(150))
    for name, column in megatrons.items():
        assert np.array_equal(ours[name], column), name


def test_a_run_in_megatrons_order_can_be_resumed_and_any_change_is_refused() -> None:
    case = next(case for case in CASES if case["name"] == "blend_weighted")
    plan = plan_of(case, "train", 700)
    state = plan.state(123)
    resumed = plan_of(case, "train", 700).resumed(state)
    assert resumed.fingerprint == plan.fingerprint
    assert [corpus.cursor for corpus in state.corpora] == np.bincount(plan.locate(np.arange(123))[0]).tolist()
    with pytest.raises(ConfigError, match="num_samples = 700, this run has 800"):
        plan_of(case, "train", 800).resumed(state, "continue")
    with pytest.raises(ConfigError, match="dataset_weights"):
        plan_of(case, "train", 700, dataset_weights=[0.4, 0.4, 0.2]).resumed(state, "continue")


@pytest.mark.parametrize("name", ["multi_epoch_split", "blend_weighted"])
def test_the_samples_that_hold_a_document_are_found_without_reading_any(name: str) -> None:
    case = next(case for case in CASES if case["name"] == name)
    plan = plan_of(case, "train", case["sizes"][0], columns=["input_ids"])
    numbers, cursors = plan.locate(np.arange(len(plan)))
    order = plan._orders["wiki"]
    pieces = order.pieces(cursors[numbers == 0])
    for begin, end in ((0, 1), (1000, 1100), (5000, 5003)):
        holding = np.unique(pieces.row[(pieces.start < end) & (pieces.start + pieces.length > begin)])
        found = plan.schedule.samples_of(0, order.containing(begin, end, 1), len(plan))
        assert found.tolist() == np.flatnonzero(numbers == 0)[holding].tolist()
        # Once for every time that the order begins again.
        after, until = len(plan) // 2, len(plan) // 2 * 3 + 7
        repeated, whole = plan.repeated_after(after), np.arange(until)
        again = np.isin(whole % after, found[found < after])
        assert repeated.samples_holding("wiki", begin, end, until).tolist() == whole[again].tolist()


def test_megatrons_order_ends_and_says_so() -> None:
    plan = plan_of(CASES[0], "train", 100)
    with pytest.raises(IndexError, match="has"):
        plan.read(np.array([len(plan)]))


@pytest.mark.parametrize(
    "option",
    [
        {"shuffle": False},
        {"stride": 8},
        {"epoch_offsets": False},
        {"temperature": 2.0},
        {"weight_by": "tokens"},
        {"skip_samples": [[1, 2]]},
        {"weight_schedule": [{"from_sample": 5, "weights": [1.0]}]},
    ],
    ids=lambda option: next(iter(option)),
)
def test_options_that_megatrons_order_does_not_know_are_refused(option: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match="order: megatron has no use for"):
        plan_of(CASES[0], "train", 100, **option)


def test_options_of_megatrons_order_are_refused_elsewhere(make_corpus: MakeCorpus) -> None:
    with pytest.raises(ConfigError, match="order: stream has no use for"):
        SamplePlan.build(make_corpus("wiki", [9, 9]), seq_length=4, add_extra_token_to_sequence=False)


def test_padding_is_no_boundary_even_if_the_pad_id_is_the_eod_id(make_corpus: MakeCorpus) -> None:
    plan = SamplePlan.build(
        make_corpus("wiki", [[5, 6, 7, 0], [8, 9, 0]]),
        seq_length=4,
        order="megatron",
        num_samples=1,
        add_extra_token_to_sequence=False,
        boundaries="eod",
        eod_id=0,
        pad_id=0,
        reset_position_ids=True,
        columns=["labels", "loss_mask", "actual_seq_len"],
        eod_pad_length=3,
    )
    row = plan[0]
    last = row["labels"].tolist()
    assert last[-1] == 0
    assert row["loss_mask"].tolist() == [1, 1, 1, 0]
