"""Perplexity by corpus is what NumPy makes of the same logits, and watching a training does not change it."""

import json

import numpy as np
import pytest
from test_training_runs import Run

pytestmark = pytest.mark.train

SPLIT = {"split": "80,20,0"}


def loader_of(blend, **options):
    from mindformers_megatron.loader import BlendedMegatronDataLoader

    return BlendedMegatronDataLoader(**{**blend, **SPLIT, "split_part": "valid", **options})


def cross_entropy(logits, labels):
    """float64[B, L]."""
    logits = logits.astype(np.float64)
    highest = logits.max(axis=-1, keepdims=True)
    total = np.log(np.exp(logits - highest).sum(axis=-1)) + highest[..., 0]
    return total - np.take_along_axis(logits, labels[..., None], axis=-1)[..., 0]


@pytest.mark.parametrize("loss_mask", ["none", "boundary", "first_document"])
def test_the_metric_is_the_mean_over_all_tokens_that_count(blend, loss_mask):
    import mindspore as ms

    from mindformers_megatron.loader import MegatronPerplexity

    loader = loader_of(blend, loss_mask=loss_mask, micro_batch_size=4)
    metric = MegatronPerplexity()
    metric.loader = loader
    rng = np.random.default_rng(0)
    for _ in range(2):
        metric.clear()
        rows = loader.plan.read(np.arange(12))
        logits = rng.normal(size=(12, 32, 512)).astype(np.float32)
        for first in (0, 4, 8):
            tokens = ms.Tensor(rows["input_ids"][first : first + 4])
            metric.update(ms.Tensor(logits[first : first + 4]), tokens, None)
        result = metric.eval()
        losses = cross_entropy(logits, rows["labels"]) * rows["loss_mask"]
        assert result["loss"] == pytest.approx(losses.sum() / rows["loss_mask"].sum(), rel=1e-5)
        assert result["PPL"] == pytest.approx(np.exp(result["loss"]))
        corpus, _ = loader.plan.locate(np.arange(12))
        for place, name in enumerate(loader.plan.names):
            mine = corpus == place
            tokens = rows["loss_mask"][mine].sum()
            assert result["corpora"][name]["tokens"] == tokens
            assert result["corpora"][name]["loss"] == pytest.approx(losses[mine].sum() / tokens, rel=1e-5)


def test_other_rows_than_the_plans_are_no_evaluation(blend):
    import mindspore as ms

    from mindformers_megatron.errors import DataError
    from mindformers_megatron.loader import MegatronPerplexity

    metric = MegatronPerplexity()
    tokens = ms.Tensor(np.zeros((4, 32), np.int32))
    with pytest.raises(DataError, match="needs callbacks"):
        metric.update(None, tokens, None)
    metric.loader = loader_of(blend, micro_batch_size=4)
    metric.clear()
    with pytest.raises(DataError, match="is not samples 0 to 3 of eval_dataset's plan"):
        metric.update(None, tokens, None)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("runs")


@pytest.fixture(scope="module")
def options(corpora):
    return {"dataset_dir": corpora, "dataset_weights": [0.5, 0.3, 0.2], "seq_length": 32, "seed": 42, **SPLIT}


def watched(folder, options, **changes):
    evaluation = {
        "data_loader": {
            "type": "BlendedMegatronDataLoader",
            **options,
            "dataset_weights": None,
            "split_part": "valid",
            "num_samples": 24,
        }
    }
    callbacks = [
        {"type": "MFLossMonitor"},
        {"type": "MegatronStepLog", "path": "steps.jsonl", "columns": ["input_ids"]},
        {"type": "MegatronMixMonitor", "interval": 5, "path": "mix.jsonl"},
        {"type": "MegatronEvaluation", "path": "evaluation.jsonl"},
    ]
    board = {"tensorboard_dir": "output/board", "tensorboard_queue_size": 10}
    switches = {"do_eval": True, "eval_step_interval": 6, "eval_dataset": evaluation, "tensorboard": board}
    return Run(folder, options, callbacks=callbacks, **switches, **changes)


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_a_training_that_is_evaluated_and_watched_is_the_same_training(folder, options):
    plain = Run(folder / "plain", options).train()
    run = watched(folder / "watched", options).train()
    assert plain.ended == run.ended == 0, run.console
    assert run.steps() == plain.steps() and len(plain.steps()) == 16

    evaluations = lines(run.folder / "evaluation.jsonl")
    assert [record["step"] for record in evaluations] == [6, 12, 16]
    for record in evaluations:
        assert set(record["corpora"]) == {"wiki", "code", "chat"}
        tokens = [corpus["tokens"] for corpus in record["corpora"].values()]
        total = sum(corpus["loss"] * corpus["tokens"] for corpus in record["corpora"].values())
        assert record["tokens"] == sum(tokens) > 700
        assert record["loss"] == pytest.approx(total / sum(tokens))
    assert len({record["loss"] for record in evaluations}) == 3
    assert "sees documents that are trained on" not in run.console

    assert [record["step"] for record in lines(run.folder / "mix.jsonl")] == [5, 10, 15, 16]
    written = b"".join(path.read_bytes() for path in (run.folder / "output" / "board").rglob("*tfevents*"))
    for name in (b"data-share/wiki", b"data-share-asked/code", b"perplexity/chat", b"perplexity/all"):
        assert name in written


@pytest.mark.slow
def test_two_ranks_evaluate_what_one_does(folder, options):
    alone = watched(folder / "alone", options).train()
    two = watched(folder / "two", options, use_parallel=True, runner_config={"batch_size": 2}).train(ranks=2)
    assert alone.ended == two.ended == 0, two.console
    for one, other in zip(*(lines(run.folder / "evaluation.jsonl") for run in (alone, two)), strict=True):
        assert other["tokens"] == one["tokens"] and other["loss"] == pytest.approx(one["loss"], rel=1e-4)
