"""An evaluation during training gets what it needs, and a warning if it sees what is trained on."""

import logging

import pytest

from mindformers_megatron.settings.evaluation import complete_evaluation, warn_of_overlap


def test_the_metric_by_corpus_and_its_callback_are_filled_in_and_what_is_said_stays():
    config = {"do_eval": True, "callbacks": [{"type": "MFLossMonitor"}]}
    complete_evaluation(config)
    assert config["metric"] == {"type": "MegatronPerplexity"}
    assert config["callbacks"] == [{"type": "MFLossMonitor"}, {"type": "MegatronEvaluation"}]
    config = {"metric": {"type": "PerplexityMetric"}, "callbacks": [{"type": "MegatronEvaluation", "path": "x"}]}
    complete_evaluation(config)
    assert config == {
        "metric": {"type": "PerplexityMetric"},
        "callbacks": [{"type": "MegatronEvaluation", "path": "x"}],
    }


@pytest.mark.parametrize(
    ("train", "evaluation", "warned"),
    [
        ({}, {}, True),
        ({"split": "9,1,0"}, {"split": "9,1,0"}, True),
        ({}, {"split": "9,1,0", "split_part": "valid"}, True),
        ({"split": "9,1,0"}, {"split": "9,1,0", "split_part": "valid"}, False),
        ({}, {"dataset_dir": "other.bin"}, False),
    ],
)
def test_documents_in_both_are_warned_of(train, evaluation, warned, caplog):
    both = ({"dataset_dir": ["data/wiki.bin", "data/code"]}, {"dataset_dir": "data/wiki"})
    with caplog.at_level(logging.WARNING, "mindformers_megatron"):
        warn_of_overlap({**both[0], **train}, {**both[1], **evaluation})
    messages = {record.getMessage() for record in caplog.records}
    assert (messages != set()) == warned
    assert all(message.startswith("data/wiki: the evaluation sees documents") for message in messages)
