import gzip
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from mindformers_megatron.corpus.decontaminate.actions import ContaminationOptions, counted_hits, treat
from mindformers_megatron.corpus.decontaminate.evaluation import EvaluationItem, read_evaluation_set
from mindformers_megatron.corpus.decontaminate.ngram_index import NgramIndex
from mindformers_megatron.corpus.decontaminate.report import (
    contamination_report,
    count_hits,
    without_common,
    write_spans,
)
from mindformers_megatron.corpus.decontaminate.spans import item_spans
from mindformers_megatron.errors import ConfigError, DataError

ITEMS = [
    EvaluationItem("exam", "exam.jsonl:1", ("one two three four", "five six")),
    EvaluationItem("exam", "exam.jsonl:2", ("alpha beta gamma delta",)),
    EvaluationItem("quiz", "quiz.txt:1", ("nobody writes this",)),
    EvaluationItem("quiz", "quiz.txt:3", ("too short",)),
]
DOCUMENTS = [
    "Before. One, two, three, four! After.",
    "clean",
    "alpha beta gamma and one two three",
    "alpha beta gamma delta",
    "at the end: alpha beta gamma",
]


@pytest.fixture
def index() -> NgramIndex:
    return NgramIndex(ITEMS, ngram=3, shortest=3)


def test_documents_are_dropped_cut_or_left(index: NgramIndex) -> None:
    hits = index.find(DOCUMENTS, first_document=100)
    treated = {
        action: treat(DOCUMENTS, hits, ContaminationOptions(action=action), first_document=100)
        for action in ("drop", "cut", "report")
    }
    assert treated["drop"] == [None, "clean", None, None, None]
    assert treated["cut"] == ["Before.\n\n! After.", "clean", "and", None, "at the end:"]
    assert treated["report"] == DOCUMENTS


def test_a_margin_is_cut_out_too(index: NgramIndex) -> None:
    options = ContaminationOptions(action="cut", margin=7)
    assert treat(DOCUMENTS[:1], index.find(DOCUMENTS[:1]), options) == ["B\n\n."]
    wide = ContaminationOptions(action="cut", margin=200)
    assert treat(DOCUMENTS[:1], index.find(DOCUMENTS[:1]), wide) == [None]


def test_documents_with_too_few_ngrams_are_left(index: NgramIndex) -> None:
    hits = index.find([*DOCUMENTS, "alpha beta gamma, alpha beta gamma"])
    counted = counted_hits(hits, ContaminationOptions(min_ngrams=2))
    assert np.unique(counted.documents).tolist() == [0, 2, 3]


def test_common_ngrams_are_no_contamination(index: NgramIndex) -> None:
    hits = index.find(DOCUMENTS)
    counts = count_hits(hits, index)
    assert np.unique(without_common(hits, counts, 2).documents).tolist() == [0, 2, 3]
    assert len(without_common(hits, counts, None)) == len(hits)


def test_the_report_says_what_was_found_of_each_item_however_shards_are_cut(index: NgramIndex) -> None:
    whole = count_hits(index.find(DOCUMENTS), index)
    for cut in range(len(DOCUMENTS) + 1):
        first = count_hits(index.find(DOCUMENTS[:cut]), index)
        second = count_hits(index.find(DOCUMENTS[cut:], first_document=cut), index)
        assert contamination_report(second + first, index) == contamination_report(whole, index)
    assert contamination_report(whole, index) == [
        {
            "name": "exam",
            "items": 2,
            "searched": 2,
            "found": 2,
            "whole": 2,
            "contaminated": [
                {
                    "item": "exam.jsonl:1",
                    "ngrams": 2,
                    "ngrams_found": 2,
                    "documents": 2,
                    "first_documents": [0, 2],
                },
                {
                    "item": "exam.jsonl:2",
                    "ngrams": 2,
                    "ngrams_found": 2,
                    "documents": 3,
                    "first_documents": [2, 3, 4],
                },
            ],
        },
        {"name": "quiz", "items": 2, "searched": 1, "found": 0, "whole": 0, "contaminated": []},
    ]


def test_where_items_stand_can_be_looked_up(index: NgramIndex, tmp_path: Path) -> None:
    path = tmp_path / "spans.parquet"
    shards = (item_spans(index.find(DOCUMENTS[n : n + 1], first_document=n), index) for n in range(len(DOCUMENTS)))
    assert write_spans(path, shards, index) == 5
    rows = pq.read_table(path, filters=[("item", "=", "exam.jsonl:1")]).to_pylist()
    assert [(row["document"], DOCUMENTS[row["document"]][row["start"] : row["end"]]) for row in rows] == [
        (0, "One, two, three, four"),
        (2, "one two three"),
    ]


def write(path: Path, content: str) -> Path:
    path.write_text(content, encoding="utf-8")
    return path


def test_jsonl_gives_the_texts_of_its_keys_or_all(tmp_path: Path) -> None:
    content = '\ufeff{"q": "一？", "choices": {"text": ["a", "b"], "n": [1]}}\n\n{"q": "two", "choices": null}\n'
    path = write(tmp_path / "exam.test.jsonl", content)
    items = read_evaluation_set(path)
    assert [(item.set_name, item.label, item.texts) for item in items] == [
        ("exam", "exam.test.jsonl:1", ("一？", "a", "b")),
        ("exam", "exam.test.jsonl:3", ("two",)),
    ]
    chosen = read_evaluation_set(path, name="other", keys=["choices"])
    assert [(item.set_name, item.texts) for item in chosen] == [("other", ("a", "b"))]


def test_plain_text_gives_paragraphs_or_lines(tmp_path: Path) -> None:
    path = write(tmp_path / "quiz.txt", "one\ntwo\n\n\nthree\r\n\r\nfour\n")
    paragraphs = read_evaluation_set(path)
    assert [(item.label, item.texts[0].strip()) for item in paragraphs] == [
        ("quiz.txt:1", "one\ntwo"),
        ("quiz.txt:5", "three"),
        ("quiz.txt:7", "four"),
    ]
    lines = read_evaluation_set(path, unit="line")
    assert [item.label for item in lines] == ["quiz.txt:1", "quiz.txt:2", "quiz.txt:5", "quiz.txt:7"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"q": "a"}\n{"q": \n', r"exam\.jsonl, line 2: no JSON"),
        ('["a"]\n', "line 1: it is list"),
        ('{"question": "a"}\n', "no key 'q' .*'question'"),
        ('{"q": 1}\n', "no text"),
        ("", "no text"),
    ],
)
def test_what_is_no_evaluation_set_is_refused(tmp_path: Path, content: str, message: str) -> None:
    path = write(tmp_path / "exam.jsonl", content)
    with pytest.raises(DataError, match=message):
        read_evaluation_set(path, keys=["q"])


def test_compressed_files_and_other_encodings_are_read(tmp_path: Path) -> None:
    text = "下列行星中，绕太阳公转一周所需时间最长的是哪一颗？\n\n请把答案写在横线上，并说明理由。"
    (tmp_path / "题库.txt").write_bytes(text.encode("gb18030"))
    (tmp_path / "exam.jsonl.gz").write_bytes(gzip.compress(b'{"q": "one"}'))
    assert [item.texts[0] for item in read_evaluation_set(tmp_path / "题库.txt")] == text.split("\n\n")
    assert read_evaluation_set(tmp_path / "exam.jsonl.gz", keys=["q"])[0].texts == ("one",)


def test_what_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="absent"):
        read_evaluation_set(tmp_path / "absent.txt")
    (tmp_path / "broken.txt").write_bytes("正常的一行\n".encode() * 100 + b"\xff\n")
    with pytest.raises(DataError, match="byte 1,600 is not valid utf_8"):
        read_evaluation_set(tmp_path / "broken.txt")
    with pytest.raises(ConfigError, match="keys"):
        read_evaluation_set(write(tmp_path / "quiz.txt", "a"), keys=["q"])


@pytest.mark.parametrize(
    "wrong",
    [{"action": "hide"}, {"ngram": 0}, {"ngram": 5}, {"min_ngrams": 0}, {"margin": -1}, {"common": 0}],
)
def test_impossible_options_are_refused(wrong) -> None:
    with pytest.raises(ConfigError, match="contamination"):
        ContaminationOptions(**wrong)
