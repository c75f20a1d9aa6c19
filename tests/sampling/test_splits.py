import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mindformers_megatron.errors import ConfigError
from mindformers_megatron.sampling.splits import parse_split, split_range


@given(numbers=st.lists(st.integers(0, 10**6), min_size=1, max_size=3).filter(any), count=st.integers(1, 10**9))
def test_edges_are_megatrons(numbers: list[int], count: int) -> None:
    # Megatron: find the numbers, divide by their sum, add up, round half to even.
    text = ",".join(map(str, numbers))
    found = [float(number) for number in re.findall(r"[.0-9]+", text)]
    found += [0.0] * (3 - len(found))
    shares = (np.array(found) / np.sum(np.array(found))).tolist()
    assert list(parse_split(text)) == shares
    low = 0.0
    for which, share in zip(("train", "valid", "test"), shares, strict=True):
        high = low + share
        begin, end = round(low * float(count)), round(high * float(count))
        if begin < end:
            assert split_range(parse_split(text), which, count) == (begin, end)
        low = high


@given(
    numbers=st.lists(st.floats(0.001, 1000), min_size=3, max_size=3),
    count=st.integers(0, 10**7),
)
def test_parts_neither_overlap_nor_leave_a_gap(numbers: list[float], count: int) -> None:
    shares = parse_split(numbers)
    parts = []
    for which in ("train", "valid", "test"):
        try:
            parts.append(split_range(shares, which, count))
        except ConfigError:
            continue
    covered = [place for begin, end in parts for place in (begin, end)]
    assert covered == sorted(covered)
    assert sum(end - begin for begin, end in parts) == count


@pytest.mark.parametrize(
    ("split", "shares"),
    [
        ("969,30,1", (0.969, 0.03, 0.001)),
        ([0.969, 0.03, 0.001], (0.969, 0.03, 0.001)),
        ("1", (1.0, 0.0, 0.0)),
        ("1,", (1.0, 0.0, 0.0)),
        (" 90 , 10 ", (0.9, 0.1, 0.0)),
        ("90/10", (0.9, 0.1, 0.0)),
        ("99.5,.5", (0.995, 0.005, 0.0)),
        ((0, 0, 3), (0.0, 0.0, 1.0)),
    ],
)
def test_text_and_lists_are_read(split: str | list[float], shares: tuple[float, float, float]) -> None:
    assert parse_split(split) == pytest.approx(shares)


@pytest.mark.parametrize(
    "split",
    [
        *["", ",", "a,b", "-9,1", "+9,1", "1e-3,1", "9;1", "1,2,3,4", "0,0,0", "1,,2", "nan,1", "١,٢"],
        *[[], [-1.0, 2.0], [float("inf"), 1.0], [float("nan")], [True, 1], ["1", "2"], [0.0], [1, 2, 3, 4], 7, None],
    ],
)
def test_what_could_mean_anything_else_is_refused_in_one_line(split: object) -> None:
    with pytest.raises(ConfigError, match="split") as caught:
        parse_split(split)  # type: ignore[arg-type]
    assert "\n" not in str(caught.value)


def test_a_part_without_documents_is_an_error_that_names_it() -> None:
    shares = parse_split("969,30,1")
    with pytest.raises(ConfigError, match=r"leaves no document for 'test': 0\.001 of the 15 in wiki"):
        split_range(shares, "test", 15, corpus="wiki")
    with pytest.raises(ConfigError, match="leaves no share for 'valid'"):
        split_range(parse_split("1,0,1"), "valid", 1000)
    with pytest.raises(ConfigError, match="one of: train, valid, test"):
        split_range(shares, "validation", 15)  # type: ignore[arg-type]


def test_halves_round_to_even() -> None:
    assert split_range(parse_split("1,1"), "train", 5) == (0, 2)
    assert split_range(parse_split("1,1"), "train", 7) == (0, 4)
