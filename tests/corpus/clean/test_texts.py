"""Cleaning is idempotent, loses only what it says, and leaves clean text alone."""

import unicodedata
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mindformers_megatron.corpus.clean.markdown import plain
from mindformers_megatron.corpus.clean.mojibake import mend
from mindformers_megatron.corpus.clean.urls import URL, trimmed
from mindformers_megatron.corpus.clean.whitespace import fold
from mindformers_megatron.errors import ConfigError, DataError
from tests.corpus.documents import CHINESE, PROSE, apply, unicode_texts

CODE = "def f(x):\n    if x  <  3:\n\treturn {\n\t    'a':   1,\n\t}\n"
blanks = st.text(st.sampled_from(" \t\n\r\u00a0\u3000\u2003ab汉"), max_size=80)


def cleaned(step: str, text: str, **parameters: Any) -> str:
    ((kept,), _) = apply(step, ["x" + text], **parameters)
    return kept[1:]


@pytest.mark.parametrize("parameters", [{}, {"form": "NFKC"}, {"form": None}, {"private_use": "drop"}])
@given(text=unicode_texts)
def test_unicode_twice_is_unicode_once(parameters: Mapping[str, Any], text: str) -> None:
    ((once,), _) = apply("unicode", ["x" + text], **parameters)
    assert apply("unicode", [once], **parameters)[0] == [once]
    if form := parameters.get("form", "NFC"):
        assert unicodedata.is_normalized(form, once)
    assert not any(unicodedata.category(character) == "Cc" for character in once if character not in "\t\n")


def test_unicode_drops_what_cannot_be_seen_and_keeps_what_is_needed() -> None:
    assert cleaned("unicode", "a\r\nb\rc\u2028d\x85e\x0cf") == "a\nb\nc\nd\ne\nf"
    assert cleaned("unicode", "\ufeffa\x00b\u200bc\u00add\u202ee\x1b[0m") == "abcde[0m"
    assert cleaned("unicode", "e\u0301") == "\u00e9"
    kept = "👨\u200d👩\u200d👧 \u0645\u06cc\u200c\u062e ❤\ufe0f 𠮷 \ue000 ①ﬁ"
    assert cleaned("unicode", kept) == kept
    assert cleaned("unicode", "①ﬁＡ", form="NFKC") == "1fiA"
    assert cleaned("unicode", "a\ue000b\U00100000", private_use="drop") == "ab"
    assert cleaned("unicode", "a\x07b", control=False) == "a\x07b"
    for text in (PROSE, CHINESE, CODE):
        assert cleaned("unicode", text) == text


@given(blanks)
def test_folding_twice_is_folding_once_and_loses_no_letter(text: str) -> None:
    once = fold(text)
    assert fold(once) == once
    assert "".join(once.split()) == "".join(text.replace("\r", " ").split())
    assert "\n\n\n" not in once
    assert not any(line.endswith((" ", "\t")) for line in once.split("\n"))


@given(blanks)
def test_folding_keeps_lines_and_their_indentation(text: str) -> None:
    text = text.replace("\r", "").replace("\u3000", " ").replace("\u00a0", " ").replace("\u2003", " ")
    kept = [line.rstrip() for line in text.split("\n") if line.strip()]
    once = [line for line in fold(text).split("\n") if line]
    assert len(once) == len(kept)
    for before, after in zip(kept, once, strict=True):
        assert after == before if before[0] in " \t" else after.split() == before.split()


def test_code_keeps_its_form_and_prose_is_folded() -> None:
    assert fold(CODE) == "def f(x):\n    if x  <  3:\n\treturn {\n\t    'a':   1,\n\t}"
    assert fold("a  b\t \tc \n\n\n\n　　中文　字\u00a0x\n") == "a b\tc\n\n中文 字 x"
    assert fold("a\n\n\nb", 0) == "a\nb"
    assert fold("a\n\n\n\nb", 2) == "a\n\n\nb"


CHINESE_SENTENCE = "这是一个中文句子。我们在这里测试编码，检测一下。"
GARBLED = [
    ("Voilà une phrase française, écrite à la hâte.", "utf-8", "cp1252"),
    ("Voilà une phrase française, écrite à la hâte.", "utf-8", "latin-1"),
    ("Привет, мир! Россия - большая страна", "utf-8", "latin-1"),
    ("Привет, мир! Россия - большая страна", "utf-8", "cp1251"),
    (CHINESE_SENTENCE, "utf-8", "latin-1"),
    (CHINESE_SENTENCE, "gbk", "latin-1"),
    (CHINESE_SENTENCE, "gbk", "cp1252"),
    ("我们的，是的", "utf-8", "gb18030"),
    ("大模型，训练数据", "utf-8", "gb18030"),
]


@pytest.mark.parametrize(("text", "written", "read"), GARBLED)
def test_what_was_read_in_the_wrong_encoding_is_mended(text: str, written: str, read: str) -> None:
    garbled = text.encode(written).decode(read)
    assert garbled != text
    assert mend(f"fine line\n{garbled}\nfine line") == f"fine line\n{text}\nfine line"


@pytest.mark.parametrize(
    "text",
    [
        PROSE,
        CHINESE,
        "Voilà « très » bien — œuvre, Ñandú, São Paulo, AÇÃO É ÀS",
        "ÄÖÜäöüß ÀÁÂÃÄÅÆÇÈÉÊËÌÍÎÏÐÑÒÓÔÕÖ",
        "Привет, мир! РЁ Ёлка",
        "锛是一种工具，日本語のテキスト、한국어",
        "naïve café 5 €, 20 °C ± 1",
        "Ελλάδα, Türkiye, Łódź",
    ],
)
def test_text_that_is_right_is_left_alone(text: str) -> None:
    assert mend(text) == text


@given(unicode_texts)
def test_mending_takes_any_text(text: str) -> None:
    mend(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("# Title #\n\nText", "Title\n\nText"),
        ("Title\n=====\n\nText", "Title\n\nText"),
        ("a **bold** and *it* and __b__ and _i_ x", "a bold and it and b and i x"),
        ('see [text](https://e.com/a_(b)) and ![alt](i.png "t") or [ref][1]', "see text and alt or ref"),
        ("> quoted\n> > twice", "quoted\ntwice"),
        ("a\n\n***\n\nb", "a\n\n\nb"),
        ("- item\n* other\n1. third", "- item\n* other\n1. third"),
        (
            "use `a_b_c` and ``x`` in snake_case_name, 2 * 3 * 4, __init__x",
            "use a_b_c and x in snake_case_name, 2 * 3 * 4, __init__x",
        ),
        ("| a | b |\n|---|:--|\n| 1 | 2 |", "| a | b |\n| 1 | 2 |"),
        ("~~gone~~ \\*kept\\*", "gone *kept*"),
        ("<https://e.com> <mailto:a@b.c>", "https://e.com mailto:a@b.c"),
        ("text\n```python\n# comment\nx = **y\n```\nmore *x*", "text\n\n# comment\nx = **y\nmore x"),
        ("```\nunclosed # x", "unclosed # x"),
        ("[1]: https://e.com 'Title'\ntext", "text"),
    ],
)
def test_markup_of_markdown_goes_and_its_code_stays(text: str, expected: str) -> None:
    assert plain(text) == expected


@given(st.text(st.sampled_from("#*_`~[]()!<>|-=\\ \na汉1"), max_size=60))
def test_markdown_keeps_the_letters_of_any_text(text: str) -> None:
    assert len(plain(text)) <= len(text) + 2


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("see https://example.com/a_(b), and", "https://example.com/a_(b)"),
        ("(http://example.com/x?y=1&z=2#f).", "http://example.com/x?y=1&z=2#f"),
        ("中文https://example.com/路径", "https://example.com/"),
        ("www.example.com/x!", "www.example.com/x"),
        ("<https://example.com>", "https://example.com"),
        ("“https://example.com”", "https://example.com"),
    ],
)
def test_urls_end_where_the_sentence_goes_on(text: str, url: str) -> None:
    (match,) = URL.findall(text)
    assert trimmed(match) == url


def test_urls_are_removed_or_replaced() -> None:
    text = "One (https://example.com/a) two https://example.com/b."
    assert apply("urls", [text])[0] == ["One two ."]
    assert apply("urls", [text], replacement="[URL]")[0] == ["One ([URL]) two [URL]."]
    assert apply("urls", ["no address: http, www"])[0] == ["no address: http, www"]


def test_rules_of_a_source_are_applied_in_order() -> None:
    text = "Licence\n*** START ***\nBody line\nShare this on X\nSee foo-12.\n*** END ***\nMore licence"
    parameters = {
        "start_after": r"^\*\*\* START.*$",
        "stop_before": r"^\*\*\* END",
        "drop_lines": ["^Share this"],
        "replace": [{"pattern": r"foo-(\d+)", "by": r"bar \1"}],
    }
    assert apply("rules", [text], **parameters)[0] == ["\nBody line\nSee bar 12.\n"]


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"drop_lines": ["("]}, "pattern '(' is no regular expression"),
        ({"replace": [{"pattern": "a", "by": r"\3"}]}, "does not fit 'a'"),
        ({}, "no rule given"),
        ({"replace": [{"by": "x"}]}, "pattern is missing"),
    ],
)
def test_rules_that_are_none_are_told(parameters: Mapping[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as error:
        apply("rules", ["x"], **parameters)
    assert message in str(error.value)


def test_a_pattern_that_would_hang_ends_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mindformers_megatron.corpus.clean.rules._SECONDS", 0.05)
    with pytest.raises(DataError, match="took more than 0 seconds for document 'd1'"):
        apply("rules", ["a" * 5000 + "!"], drop_lines=["^(a|aa)+$"])
