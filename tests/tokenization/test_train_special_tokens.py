import pytest
from hypothesis import given
from hypothesis import strategies as st

from mindformers_megatron.errors import ConfigError
from mindformers_megatron.tokenization.training.special_tokens import ROLES, SpecialTokens


@given(
    tokens=st.dictionaries(st.sampled_from(ROLES), st.sampled_from(["<a>", "<b>", "<c>", "<d>"])),
    user_defined=st.lists(st.sampled_from(["<x>", "<y>", "<z>"]), unique=True),
    data=st.data(),
)
def test_every_token_has_one_id_of_its_own_and_those_asked_for(
    tokens: dict, user_defined: list[str], data: st.DataObject
) -> None:
    distinct = sorted(set(tokens.values()))
    places = data.draw(st.lists(st.integers(0, 19), min_size=len(distinct), max_size=len(distinct), unique=True))
    asked = dict(zip(distinct, places, strict=True))
    ids = {role: asked[token] for role, token in tokens.items() if data.draw(st.booleans())}
    special = SpecialTokens(tokens, ids, tuple(user_defined))
    placed = special.place(20)
    assert set(placed) == {*tokens.values(), *user_defined}
    assert len(set(placed.values())) == len(placed)
    assert all(placed[tokens[role]] == id_ for role, id_ in ids.items())
    # Those without an id of their own take the lowest that are left, in order.
    free = [placed[token] for token in special.texts if token not in {tokens[role] for role in ids}]
    assert free == sorted(set(range(20)) - set(ids.values()))[: len(free)]


@pytest.mark.parametrize(
    ("tokens", "ids", "user_defined", "message"),
    [
        ({"eod": ""}, {}, (), "the eod token is empty"),
        ({}, {"pad": 3}, (), "id 3 given for pad, but no token"),
        ({"eod": "<e>"}, {}, ("",), "symbol is empty"),
        ({"eod": "<e>"}, {}, ("<e>",), "'<e>' is there already"),
        ({"eod": "<e>"}, {}, ("<x>", "<x>"), "'<x>' is there already"),
        ({"eod": "<e>"}, {"eod": -1}, (), "eod id -1 is not among the 4 ids"),
        ({"eod": "<e>", "eos": "<e>"}, {"eod": 1, "eos": 2}, (), "both id 1 and id 2"),
        ({"eod": "<e>", "eos": "<f>"}, {"eod": 1, "eos": 1}, (), "asked for both '<e>' and '<f>'"),
        ({"eod": "<e>"}, {}, ("<1>", "<2>", "<3>", "<4>"), "5 special tokens do not fit 4 ids"),
    ],
)
def test_contradictions_are_refused(tokens: dict, ids: dict, user_defined: tuple[str, ...], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        SpecialTokens(tokens, ids, user_defined).place(4)
