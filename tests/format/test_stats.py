"""Numbers of a pair are those that counting one by one gives."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenized import Pair, records

from mindformers_megatron.errors import DataError
from mindformers_megatron.format import stats
from mindformers_megatron.format.provenance import DocsWriter
from mindformers_megatron.format.reader import IndexedDataset
from mindformers_megatron.format.stats import OTHERS, pair_stats
from mindformers_megatron.format.writer import IndexedDatasetWriter


def test_a_tokenized_corpus_in_numbers(original: Pair) -> None:
    found = pair_stats(original.prefix)
    dataset = IndexedDataset(original.prefix)
    assert (found.documents, found.sequences, found.tokens) == (10_000, dataset.num_sequences, dataset.num_tokens)
    assert found.empty == 244
    assert (found.eod_id, found.ending_in_eod) == (0, 9_756)
    assert found.to_json()["eod_share"] == 1
    assert found.sources is not None
    assert sum(share.tokens for share in found.sources) == found.tokens
    names = Counter(record["meta"]["source"] for record in records())  # type: ignore[index]
    assert {share.source: share.documents for share in found.sources} == names


@given(st.lists(st.integers(0, 3_000), min_size=1, max_size=40))
def test_lengths_are_counted_and_ranked(tmp_path: Path, lengths: list[int]) -> None:
    with IndexedDatasetWriter(tmp_path / "pair", np.uint8) as writer:
        writer.add_documents(np.ones(sum(lengths), np.uint8), lengths)
    found = pair_stats(writer.prefix, eod_id=1)
    filled = sorted(length for length in lengths if length)
    assert found.empty == len(lengths) - len(filled)
    assert found.ending_in_eod == len(filled)
    if not filled:
        assert (found.histogram, found.longest) == ((), 0)
        return
    assert (found.shortest, found.longest, found.mean) == (filled[0], filled[-1], sum(filled) / len(filled))
    for value, share in ((found.median, 0.5), (found.percentile_90, 0.9), (found.percentile_99, 0.99)):
        assert value == filled[int(np.ceil(len(filled) * share)) - 1]
    for bucket in found.histogram:
        inside = [length for length in filled if bucket.low <= length <= bucket.high]
        assert (bucket.documents, bucket.tokens) == (len(inside), sum(inside))
    assert sum(bucket.documents for bucket in found.histogram) == len(filled)


def test_stretches_and_very_long_documents_add_up(
    tmp_path: Path, original: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = pair_stats(original.prefix)
    monkeypatch.setattr(stats, "_DOCUMENTS", 777)
    monkeypatch.setattr(stats, "_COUNTED", 12)
    assert pair_stats(original.prefix) == whole


def test_sources_without_end_are_counted_as_one(tmp_path: Path, write: Callable[..., str]) -> None:
    prefix = write(tmp_path / "pair", [[[1]]] * 1_500)
    with DocsWriter(prefix) as docs:
        for number in range(1_500):
            docs.add([None], source=f"s{number}", file="f", lines=[1], byte_offsets=[0], metas=[None])
    sources = pair_stats(prefix).sources
    assert sources is not None
    assert {share.source: share.tokens for share in sources}[OTHERS] == 500


def test_a_damaged_pair_and_provenance_of_another_are_refused(copy: Pair) -> None:
    copy.array("lengths")[7] = 2**30
    with pytest.raises(DataError, match=r"is damaged; `mfm verify --full"):
        pair_stats(copy.prefix)
    with DocsWriter(copy.prefix) as docs:
        docs.add([None], source="s", file="f", lines=[1], byte_offsets=[0], metas=[None])
    with pytest.raises(DataError, match="1 rows for 10,000 documents"):
        pair_stats(copy.prefix)
