"""Every planted number is found, and none of those that only look like one."""

import itertools
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mindformers_megatron.corpus.clean.pii.checks import is_bank_card, is_id_card
from mindformers_megatron.corpus.clean.pii.finders import find
from mindformers_megatron.corpus.clean.pii.step import PLACEHOLDERS
from tests.corpus.documents import apply, drops

ALL = ("email", "phone", "id_card", "bank_card", "ip")


def id_card(first: str) -> str:
    """17 digits with their check character, by the formula of GB 11643 in its other form: sum of 2**i * digit."""
    total = sum(int(digit) * 2 ** (17 - place) for place, digit in enumerate(first))
    check = (12 - total % 11) % 11
    return first + ("X" if check == 10 else str(check))


def bank_card(first: str) -> str:
    """Digits with the check digit of Luhn, found by trying."""

    def passes(number: str) -> bool:
        total = 0
        for place, digit in enumerate(reversed(number)):
            value = int(digit) * (1 + place % 2)
            total += value - 9 * (value > 9)
        return total % 10 == 0

    return next(first + str(digit) for digit in range(10) if passes(first + str(digit)))


def found(text: str, regions: tuple[str, ...] = ("CN",)) -> list[tuple[str, str]]:
    return [(kind, text[start:end]) for start, end, kind in find(text, ALL, regions)]


def planted(count: int, seed: int) -> list[tuple[str, str]]:
    drawn = random.Random(seed)

    def digits(number: int) -> str:
        return "".join(drawn.choice("0123456789") for _ in range(number))

    numbers = []
    for _ in range(count):
        born = f"{drawn.randint(1940, 2015)}{drawn.randint(1, 12):02}{drawn.randint(1, 28):02}"
        region = drawn.choice(["110105", "310115", "440301", "510107", "650102", "820000"])
        numbers.append(("id_card", id_card(region + born + digits(3))))
        prefix, length = drawn.choice([("622202", 19), ("621700", 19), ("4", 16), ("51", 16), ("2221", 16), ("37", 15)])
        numbers.append(("bank_card", bank_card(prefix + digits(length - 1 - len(prefix)))))
        numbers.append(("phone", drawn.choice(["138", "139", "150", "188", "176"]) + digits(8)))
        numbers.append(("email", f"user{digits(4)}.name@mail{digits(2)}.example.com"))
        numbers.append(
            ("ip", f"{drawn.choice([8, 93, 114, 202])}.{drawn.randint(0, 255)}.{drawn.randint(40, 255)}.{digits(1)}")
        )
    return numbers


def look_alike(kind: str, number: str, drawn: random.Random) -> str:
    """The same with one digit changed, so that its checksum fails."""
    if kind == "id_card":
        return number[:-1] + drawn.choice([check for check in "0123456789X" if check != number[-1]])
    return number[:-1] + str((int(number[-1]) + drawn.randint(1, 9)) % 10)


CONTEXTS = ["{}", "call {} now", "号码{}。", "（{}）", "no: {}, thanks", "卡号：{}；", "\n{}\n", '"{}"', "tel={}&x"]


def test_every_planted_number_is_found_and_no_look_alike() -> None:
    drawn = random.Random(1)
    for kind, number in planted(200, 1):
        for context in CONTEXTS:
            assert found(context.format(number)) == [(kind, number)], context
        if kind in ("id_card", "bank_card"):
            for context in CONTEXTS:
                other = look_alike(kind, number, drawn)
                # A wrong card number of 18 digits could be the other sort of card, rightly.
                assert [hit for hit in found(context.format(other)) if hit[0] == kind] == [], other


def test_all_of_a_text_is_found_at_once_in_order() -> None:
    numbers = planted(40, 2)
    text = "，".join(f"第{place}个：{number}" for place, (_, number) in enumerate(numbers))
    assert found(text) == numbers


@pytest.mark.parametrize(
    "text",
    [
        "version 1.2.3.240 and 版本 1.2.3.240, v8.8.8.180, release 10.20.30.40, 12.6.2.1. Autotools, 第 9.1.3.2 节",
        "127.0.0.1, 10.0.0.1, 192.168.1.1, 172.16.0.1, 224.0.0.1, 0.0.0.0, 192.0.2.7, 999.1.1.1, 1.2.3.4.5",
        "a::b, std::vector, 12:30:45, fe80::1, ::1, 00:1a:2b:3c:4d:5e, 2001::db8::1",
        "timestamps 1700000000, 1700000000000, 1700000000000000000; 2024-01-15 12:30:00; 20240115123000",
        "pi is 3.14159265358979323846, and e 2.718281828459045",
        "ISBN 978-7-111-12345-6, ISSN 1234-5679, QQ 123456789, 身份证号 110105194912310021",
        "0000000000000000 1111111111111111 4444 4444 4444 4444",
        "user@localhost, @handle, a@b, name@example, foo@.com, x@y..com",
        "commit 13800138000abc, id_13800138000, 0x13800138000, 138001380001",
        "sha 6222020200001234565a 4111111111111111f",
    ],
)
def test_what_only_looks_like_personal_data_stays(text: str) -> None:
    assert found(text, ("CN", "US")) == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("+86 138 0013 8000", "+86 138 0013 8000"),
        ("138-0013-8000", "138-0013-8000"),
        ("010-62345678", "010-62345678"),
        ("(021) 62345678", "(021) 62345678"),
        ("+1 (650) 253-0000", "+1 (650) 253-0000"),
        ("+442083661177", "+442083661177"),
        ("8613800138000", "8613800138000"),
    ],
)
def test_telephone_numbers_are_found_as_people_write_them(text: str, expected: str) -> None:
    assert found(f"请打{text}，谢谢") == [("phone", expected)]


def test_numbers_of_other_countries_are_found_when_asked_for() -> None:
    assert found("call 650-253-0000 or 03-1234-5678") == []
    assert found("call (650) 253-0000 today", ("US",)) == [("phone", "(650) 253-0000")]
    assert found("電話 03-3581-0101 です", ("JP",)) == [("phone", "03-3581-0101")]


def test_grouped_cards_are_found() -> None:
    card = bank_card("622202020000123456")
    spaced = " ".join(card[first : first + 4] for first in range(0, 19, 4))
    assert found(f"卡号 {spaced}。") == [("bank_card", spaced)]
    assert found("amex 3782 822463 10005") == [("bank_card", "3782 822463 10005")]


def test_what_is_found_is_masked_and_counted_or_the_document_dropped() -> None:
    texts = ["write to a@example.com or b@example.com, 93.184.216.34", "nothing here"]
    kept, tally = apply("pii", texts)
    assert kept == ["write to [EMAIL] or [EMAIL], [IP]", "nothing here"]
    assert dict(tally.of("web").found) == {"email": 2, "ip": 1}
    assert apply("pii", texts, kinds="ip")[0][0] == "write to a@example.com or b@example.com, [IP]"
    kept, tally = apply("pii", texts, action="drop")
    assert kept == ["nothing here"]
    assert dict(tally.of("web").dropped) == {"email": 1}
    assert drops("pii", ["x"]) == {}


numbers = st.sampled_from([number for _, number in planted(20, 3)])
pieces = st.lists(numbers | st.text(st.sampled_from("0123456789 .-+()@:Xa汉\n"), max_size=30), max_size=10)


@given(pieces)
def test_masking_twice_changes_nothing_more(parts: list[str]) -> None:
    ((once,), _) = apply("pii", ["x" + "".join(parts)])
    assert apply("pii", [once])[0] == [once]


@given(pieces)
def test_what_is_not_masked_stays_as_it_was(parts: list[str]) -> None:
    text = "x" + "".join(parts)
    hits = find(text, ALL, ("CN",))
    assert all(first[1] <= second[0] for first, second in itertools.pairwise(hits))
    ((masked,), _) = apply("pii", [text])
    position = 0
    for start, end, kind in hits:
        assert masked.startswith(text[position:start] + PLACEHOLDERS[kind])
        masked = masked[start - position + len(PLACEHOLDERS[kind]) :]
        position = end
    assert masked == text[position:]


@given(st.text("0123456789X", min_size=18, max_size=18))
def test_checks_take_any_string_of_their_characters(number: str) -> None:
    assert is_id_card(number[:17].replace("X", "1") + number[17]) in (True, False)
    assert is_bank_card(number.replace("X", "1")) in (True, False)
