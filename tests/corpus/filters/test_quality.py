"""Running text passes; what each rule is for is dropped under its name."""

import pytest

from tests.corpus.documents import CHINESE, PROSE, apply, drops

MENU = "\n".join(f"• Item {number} of the menu" for number in range(40))
TABLE = "\n".join(f"{number} {number * 7} {number * 13} 55.2 | 17 %" for number in range(60))
LOOP = "The model goes on to say the same of that. " * 40
CHINESE_LOOP = "模型一直在重复说同样的话。" * 40
CHINESE_MENU = "\n".join(f"・商品{number}号" for number in range(60))


@pytest.mark.parametrize("text", [PROSE, CHINESE, PROSE.replace(". ", ".\n"), CHINESE.replace("。", "。\n")])
@pytest.mark.parametrize("step", ["gopher_quality", "gopher_repetition", "fineweb", "punctuation", "url_share"])
def test_running_text_passes(step: str, text: str) -> None:
    assert apply(step, [text])[0] == [text]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("Too short to be the text that we have.", "too few words"),
        ("the and of to " * 30_000, "too many words"),
        ("I am to be or to go on in it at an up us. " * 20, "words too short"),
        (
            " ".join(["the and of internationalisierungsbeauftragte"] + ["Donaudampfschifffahrtsgesellschaft"] * 60),
            "words too long",
        ),
        (PROSE + " #tag" * 40, "too many symbols"),
        (PROSE.replace(" ", "\n- "), "too many bullet lines"),
        (PROSE.replace(". ", "...\n"), "too many ellipsis lines"),
        ("the and of word " * 20 + "1234 " * 30, "too few alphabetic words"),
        ("lorem ipsum dolor sit amet consectetur " * 12, "too few stop words"),
        ("很短的一句话，没有内容。", "too few words"),
        ("工业企业管理规划战略发展" * 20, "too few stop words"),
        (CHINESE + "→★☆※○●△" * 30, "too few letters"),
        (CHINESE + "#" * 40, "too many symbols"),
    ],
)
def test_gopher_drops_what_is_no_running_text(text: str, reason: str) -> None:
    assert drops("gopher_quality", [text]) == {reason: 1}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("\n".join(["same line", "other line"] * 10), "repeated lines"),
        ("\n\n".join([PROSE, "Buy now.", "Buy now.", "Buy now."]), "repeated lines"),
        ("\n".join(["short one", PROSE[:200], "two", "three", PROSE[:200]]), "repeated lines, by characters"),
        (" ".join(f"great deal {number}" for number in range(30)), "one 2-gram too often"),
        (LOOP, "one 4-gram too often"),
        (CHINESE_LOOP, "one 4-gram too often"),
        (PROSE + " " + PROSE[:130], "repeated 5-grams"),
        (CHINESE + CHINESE[:40], "repeated 10-grams"),
    ],
)
def test_gopher_drops_what_repeats_itself(text: str, reason: str) -> None:
    (found,) = drops("gopher_repetition", [text])
    assert found.split()[-1][-5:] == reason.split()[-1][-5:] or found == reason


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (MENU, "too few lines end a sentence"),
        (CHINESE_MENU, "too few lines end a sentence"),
        (
            "\n".join(["A line that ends.", "A longer line that is said twice here."] * 3 + [PROSE]),
            "repeated lines, by characters",
        ),
        ("\n".join(f"Short {number}." for number in range(20)), "too many short lines"),
        ("\n".join(f"很短的第{number}行。" for number in range(20)), "too many short lines"),
    ],
)
def test_fineweb_drops_lists(text: str, reason: str) -> None:
    assert list(drops("fineweb", [text])) == [reason]


def test_numbers_may_be_others_and_rules_for_unspaced_scripts_left_out() -> None:
    assert drops("gopher_quality", ["很短的一句话。"], unspaced=None) == {}
    assert drops("gopher_quality", ["很短的一句话，是的。"], unspaced={"min_words": 5}) == {}
    assert drops("gopher_quality", ["tiny text"], min_words=1, min_stop_words=0) == {}
    assert drops("gopher_quality", ["der und die " * 30], stop_words=["der", "die"]) == {}
    assert drops("gopher_repetition", [LOOP], top_ngrams={}, repeated_ngrams={}) == {}


def test_the_value_and_the_limit_are_told() -> None:
    _, tally = apply("gopher_quality", ["only four words here"])
    assert tally.examples["too few words"][0].detail == "4 where at least 50 is asked"


def test_c4_keeps_sentences_and_drops_what_has_too_few() -> None:
    text = "\n".join(
        [
            "Home | About | Contact",
            "This is a sentence that stays.",
            "Another one, with a note.[1] It goes on.",
            "Short one.",
            "Please enable Javascript to see this page.",
            "We use cookies to make this page better.",
            "Is this the last of them? It is!",
            "这里有一句中文，也留下。",
            "没有句号的一行",
        ]
    )
    kept, tally = apply("c4", [text])
    assert kept == [
        "This is a sentence that stays.\nAnother one, with a note. It goes on.\nIs this the last of them? It is!\n"
        "这里有一句中文，也留下。"
    ]
    assert tally.of("web").changed == 1
    assert drops("c4", ["One sentence only, no more."]) == {"too few sentences": 1}
    assert drops("c4", ["if (x) { return; }"]) == {"curly bracket": 1}
    assert drops("c4", ["Lorem Ipsum dolor."]) == {"lorem ipsum": 1}
    assert drops("c4", ["menu\nmore"]) == {"empty": 1}
    assert apply("c4", ["no end here"], ending=False, min_sentences=0)[0] == ["no end here"]


def test_punctuation_and_garbled_text_is_dropped() -> None:
    texts = ["!!! ??? ...", "—— ……。。。", PROSE, "for key, value in items(): total += value[key]"]
    assert drops("punctuation", texts) == {"too much punctuation": 2}
    assert drops("punctuation", [PROSE + "\ufffd" * 20]) == {"garbled": 1}


def test_texts_of_addresses_are_dropped() -> None:
    links = "\n".join(f"https://example.com/page/{number}" for number in range(20))
    assert drops("url_share", [links, PROSE + " https://example.com/"]) == {"too many URLs": 1}
    assert drops("url_share", [PROSE * 9 + " https://example.com/" + "a" * 300], max_length=200) == {
        "a URL too long": 1
    }
