"""Shares are counted on the rows themselves, by finding them in the files."""

import numpy as np
import pytest

from mindformers_megatron.demo.delivered import Haystack, Share, find_shares
from mindformers_megatron.format.reader import IndexedDataset
from mindformers_megatron.format.writer import IndexedDatasetWriter
from mindformers_megatron.sampling.plan import SamplePlan

WEIGHTS = {"prose": 0.5, "code": 0.3, "manuals": 0.2}


@pytest.fixture
def corpora(tmp_path):
    opened = {}
    for seed, name in enumerate(WEIGHTS):
        ids = np.random.default_rng(seed).integers(0, 4096, 5000)
        with IndexedDatasetWriter(str(tmp_path / name), np.dtype("<u2")) as writer:
            writer.add_documents(ids, np.full(50, 100))
            writer.finalize()
        opened[name] = IndexedDataset(tmp_path / name)
    return opened


@pytest.mark.parametrize("samples", [1, 37, 480])
def test_a_plan_delivers_what_it_was_asked_for(corpora, samples):
    plan = SamplePlan.build(
        [dataset.prefix for dataset in corpora.values()], dataset_weights=list(WEIGHTS.values()), seq_length=64, seed=42
    )
    rows = plan.read(np.arange(samples))["input_ids"].tolist()
    shares = find_shares(rows, corpora, WEIGHTS)
    assert sum(share.rows for share in shares) == samples
    assert all(share.exact for share in shares)


def test_a_blend_that_drifted_is_seen(corpora):
    plan = SamplePlan.build(
        [dataset.prefix for dataset in corpora.values()], dataset_weights=[0.51, 0.29, 0.2], seq_length=64, seed=42
    )
    rows = plan.read(np.arange(480))["input_ids"].tolist()
    assert [share.exact for share in find_shares(rows, corpora, WEIGHTS)] == [False, False, True]


def test_a_row_that_no_corpus_holds_counts_for_none(corpora):
    tokens = corpora["code"].tokens(10, 64).tolist()
    shares = find_shares([tokens, tokens[::-1], [70000, *tokens[1:]]], corpora, WEIGHTS)
    assert [(share.name, share.rows, share.of) for share in shares] == [
        ("prose", 0, 3),
        ("code", 1, 3),
        ("manuals", 0, 3),
    ]


def test_a_row_that_two_corpora_hold_counts_for_the_one_that_lacks_rows(corpora):
    both = {**corpora, "copy": corpora["code"]}
    rows = [corpora["code"].tokens(start, 64).tolist() for start in range(0, 1000, 100)]
    shares = find_shares(rows, both, {"prose": 0.0, "code": 0.7, "manuals": 0.0, "copy": 0.3})
    assert [share.rows for share in shares] == [0, 7, 0, 3]


def test_a_row_may_run_over_the_end_of_a_corpus(corpora):
    dataset = corpora["prose"]
    row = np.concatenate([dataset.tokens(4990, 10), dataset.tokens(0, 54)])
    assert Haystack(dataset, 64).holds(row.tolist())


def test_bytes_that_match_across_tokens_are_no_match(tmp_path):
    with IndexedDatasetWriter(str(tmp_path / "a"), np.dtype("<u2")) as writer:
        writer.add_document(np.array([0x0201, 0x0403, 0x0605]))
        writer.finalize()
    haystack = Haystack(IndexedDataset(tmp_path / "a"), 2)
    assert haystack.holds([0x0201, 0x0403])
    assert not haystack.holds([0x0302, 0x0504])


def test_a_share_is_exact_within_one_row():
    def share(rows: int) -> Share:
        return Share(name="a", weight=0.3, rows=rows, of=96)  # 28.8 rows

    assert [share(rows).exact for rows in (27, 28, 29, 30)] == [False, True, True, False]
