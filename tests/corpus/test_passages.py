import pytest
from hypothesis import given
from hypothesis import strategies as st

from mindformers_megatron.corpus.passages import remove_passages, split_passages

lines_of_text = st.lists(st.sampled_from(["", " ", "a", "bb", "  c"]), max_size=12).map("\n".join)


@pytest.mark.parametrize("unit", ["line", "paragraph"])
@given(text=lines_of_text)
def test_nothing_removed_changes_nothing(unit: str, text: str) -> None:
    assert remove_passages(text, (), unit) == text


@given(text=lines_of_text, data=st.data())
def test_lines_go_as_if_they_had_not_been_there(text: str, data: st.DataObject) -> None:
    lines = split_passages(text, "line")
    assert lines == text.split("\n")
    gone = data.draw(st.sets(st.integers(0, len(lines) - 1)))
    assert remove_passages(text, gone, "line") == "\n".join(
        line for place, line in enumerate(lines) if place not in gone
    )


@given(text=lines_of_text, data=st.data())
def test_what_is_left_of_paragraphs_is_the_other_paragraphs(text: str, data: st.DataObject) -> None:
    paragraphs = split_passages(text, "paragraph")
    gone = data.draw(st.sets(st.integers(0, len(paragraphs) - 1)))
    left = [paragraph for place, paragraph in enumerate(paragraphs) if place not in gone]
    assert split_passages(remove_passages(text, gone, "paragraph"), "paragraph") == (left or [""])


def test_paragraphs_stand_between_blank_lines() -> None:
    text = "one\nstill one\n\n\n  two\n \nthree\n"
    assert split_passages(text, "paragraph") == ["one\nstill one", "  two", "three\n"]
    assert remove_passages(text, [1], "paragraph") == "one\nstill one\n\n\nthree\n"
    assert remove_passages(text, [2], "paragraph") == "one\nstill one\n\n\n  two"
