import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mindformers_megatron.tokenization.records import RecordError, parse_record

JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)


@given(fields=st.dictionaries(st.text(), JSON_VALUES, max_size=4), text=st.text(), escaped=st.booleans())
def test_any_record_of_valid_json_is_read_as_it_is(fields: dict[str, Any], text: str, escaped: bool) -> None:
    line = json.dumps(fields | {"text": text}, ensure_ascii=escaped).encode() + b"\r\n"
    assert parse_record(line, ["text"]).texts == ([text],)


@pytest.mark.parametrize("number", ["NaN", "-Infinity", "1e999", "123456789012345678901234567890"])
def test_numbers_that_python_reads_do_no_harm(number: str) -> None:
    line = f'{{"text": "a", "score": {number}, "meta": {{"score": {number}}}}}'.encode()
    record = parse_record(line, ["text"])
    assert record.texts == (["a"],)
    assert record.meta is not None
    assert list(json.loads(record.meta)) == ["score"]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b'{"text": "a', "not valid JSON: Unterminated string starting at column 10"),
        (b'{"text": "a"} {"text": "b"}', "not valid JSON: Extra data at column 15"),
        (b"plain text", "not valid JSON: Expecting value at column 1"),
        (b'{"text": "a\tb"}', "not valid JSON: Invalid control character at column 12"),
        (b'{"text": "\xff"}', "not valid UTF-8: byte 0xff at column 11"),
        (b'{"text": "\xed\xa0\x80"}', "not valid UTF-8: byte 0xed at column 11"),
        ('{"text": "a"}'.encode("utf-16"), "not valid UTF-8: byte 0xff at column 1"),
        (b'{"text": "a\0b"}', "NUL byte at column 12"),
        (b'{"text": "\\ud800"}', "'text' has a lone surrogate .ud800 at character 1"),
        (b'{"text": ["fine", "\\udfff\\ud800"]}', "'text' has a lone surrogate .udfff at character 1"),
        (b'{"txt": "a", "id": 1}', "no key 'text' .its keys: 'txt', 'id'."),
        (b"{}", "no key 'text' .its keys: none."),
        (b'{"text": null}', "'text' is null, not a string"),
        (b'{"text": 1.5}', "'text' is a number, not a string"),
        (b'{"text": true}', "'text' is a boolean, not a string"),
        (b'{"text": {"a": 1}}', "'text' is an object, not a string"),
        (b'{"text": ["a", null]}', "'text' is a list with null, not a string"),
        (b'["text"]', "it is a list, not an object"),
        (b'"text"', "it is a string, not an object"),
        (b"[" * 100_000, "nested too deeply"),
        (b"1" * 5_000, "not valid JSON|a number, not an object"),
    ],
)
def test_a_line_that_is_no_record_says_why(line: bytes, reason: str) -> None:
    for end in (b"", b"\n", b"\r\n"):
        with pytest.raises(RecordError, match=reason) as caught:
            parse_record(line + end, ["text"])
        assert "\n" not in str(caught.value)


def test_escapes_of_a_whole_character_are_no_lone_surrogates() -> None:
    assert parse_record(b'{"text": "\\ud83d\\ude00", "x": NaN}', ["text"]).texts == (["😀"],)


def test_a_lone_surrogate_elsewhere_does_no_harm() -> None:
    record = parse_record(b'{"text": "a", "id": "\\ud800", "source": "\\ud800", "meta": {"a": "\\ud800"}}', ["text"])
    assert record.texts == (["a"],)
    for stored in (record.id, record.source, record.meta):
        assert stored is not None
        stored.encode()


def test_lists_are_sentences_and_several_keys_stay_apart() -> None:
    record = parse_record(b'{"title": "t", "text": ["a", "", "b"], "other": 1}', ["text", "title"])
    assert record.texts == (["a", "", "b"], ["t"])


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"id": "a"}, ("a", None, None)),
        ({"id": 7, "source": "web"}, ("7", "web", None)),
        ({"id": 1.5, "source": 3, "meta": "no object"}, (None, None, None)),
        ({"id": True, "meta": {}}, (None, None, None)),
        ({"meta": {"source": "wiki", "n": 1}}, (None, "wiki", '{"source":"wiki","n":1}')),
        ({"source": "outer", "meta": {"source": "inner"}}, (None, "outer", '{"source":"inner"}')),
    ],
)
def test_what_a_record_says_about_itself(fields: dict[str, Any], expected: tuple[str | None, ...]) -> None:
    record = parse_record(json.dumps(fields | {"text": ""}).encode(), ["text"])
    assert (record.id, record.source, record.meta) == expected
