"""The demo's text is real, of three kinds, and on every machine."""

import json
import statistics
from collections.abc import Iterator

import pytest

from mindformers_megatron.demo.collect import Text, code, collect, distinct, library, manuals, prose, write_jsonl
from mindformers_megatron.demo.config import CORPORA


@pytest.fixture(scope="module")
def corpora() -> dict[str, list[Text]]:
    return {name: list(collect(name)) for name in CORPORA}


def test_each_corpus_is_large_enough_to_learn_from(corpora):
    assert {name: sum(len(text.text) for text in texts) > 200_000 for name, texts in corpora.items()} == dict.fromkeys(
        CORPORA, True
    )


def test_documents_of_the_corpora_differ_in_length(corpora):
    median = {name: statistics.median(len(text.text) for text in texts) for name, texts in corpora.items()}
    assert median["prose"] * 10 < median["manuals"]
    assert median["prose"] * 10 < median["code"]


def test_no_document_comes_twice_and_none_is_blank(corpora):
    for texts in corpora.values():
        assert len({text.text for text in texts}) == len(texts)
        assert all(text.text.strip() for text in texts)


def test_code_holds_the_library_but_not_its_tests_or_the_packages_of_others(corpora):
    names = [text.name for text in corpora["code"]]
    assert {"ast.py", "json/decoder.py"} <= set(names)
    assert not [name for name in names if {"test", "tests", "site-packages"} & set(name.split("/"))]


def test_code_comes_in_the_same_order_each_time():
    names = [text.name for text in code(library())]
    assert names == [text.name for text in code(library())]


def test_prose_is_the_docstrings_without_their_indent():
    source = Text("m.py", '"""Module."""\nclass A:\n    """Line one.\n\n    Line two.\n    """\n    def f(self): "f"\n')
    assert list(prose([source])) == [
        Text("m.py", "Module."),
        Text("m.py:A", "Line one.\n\nLine two."),
        Text("m.py:f", "f"),
    ]


def test_prose_passes_over_what_is_no_python():
    assert list(prose([Text("old.py", "print 'two'"), Text("new.py", '"""Three."""')])) == [Text("new.py", "Three.")]


def test_sources_that_cannot_be_decoded_are_passed_over(tmp_path):
    (tmp_path / "a.py").write_bytes(b"# \xff\n")
    (tmp_path / "b.py").write_bytes("# -*- coding: latin-1 -*-\n# caf\xe9\n".encode("latin-1"))
    assert list(code(tmp_path)) == [Text("b.py", "# -*- coding: latin-1 -*-\n# café\n")]


def test_manuals_describe_the_installed_packages():
    assert any(text.name == "numpy" and "array" in text.text for text in manuals())


def test_distinct_keeps_the_first_of_equal_texts():
    assert list(distinct([Text("a", "x"), Text("b", " \n"), Text("c", "x"), Text("d", "y")])) == [
        Text("a", "x"),
        Text("d", "y"),
    ]


def test_texts_become_json_lines_with_id_and_source(tmp_path):
    def texts() -> Iterator[Text]:
        yield Text("one", 'two\nlines "quoted" 中文')
        yield Text("lone", "\udcff")

    assert write_jsonl(texts(), "prose", tmp_path / "prose.jsonl") == 2
    records = [json.loads(line) for line in (tmp_path / "prose.jsonl").read_text(encoding="utf-8").splitlines()]
    assert records == [
        {"id": "one", "text": 'two\nlines "quoted" 中文', "meta": {"source": "prose"}},
        {"id": "lone", "text": "?", "meta": {"source": "prose"}},
    ]
