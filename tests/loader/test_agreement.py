"""Ranks that read different plans, or each other's rows, stop the run and are named."""

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from msrun import msrun

from mindformers_megatron.errors import ConfigError
from mindformers_megatron.sampling.shards import Shard

if TYPE_CHECKING:
    from mindformers_megatron.loader.agreement import Intent

pytestmark = pytest.mark.train


def intents_of(shards: list[tuple[int, int]], batches: str | None = None) -> "list[Intent]":
    """Ranks of these shards; ``batches`` has a letter for each rank's first batch, ``-`` for a stand-in."""
    from mindformers_megatron.loader.agreement import Intent

    letters = batches or "".join("abcdefgh"[rank] for rank, _ in shards)
    return [
        Intent(plan="a" * 64, batch=None if letter == "-" else f"{ord(letter):064x}", shard=Shard(*shard))
        for shard, letter in zip(shards, letters, strict=True)
    ]


def check(intents: "list[Intent]", **options: bool) -> None:
    from mindformers_megatron.loader.agreement import check_agreement

    check_agreement(intents, **options)


def test_what_ranks_exchange_comes_back_as_it_was() -> None:
    from mindformers_megatron.loader.agreement import Intent

    for intent in intents_of([(0, 2), (1, 2), (1, 2)], "ab-"):
        words = intent.to_words()
        assert (words.shape, words.dtype) == ((19,), np.int32)
        assert Intent.from_words(words) == intent


def test_one_plan_and_other_rows_in_every_shard_is_agreement() -> None:
    check(intents_of([(0, 1)]))
    check(intents_of([(0, 4), (1, 4), (2, 4), (3, 4)]))
    check(intents_of([(0, 2), (0, 2), (1, 2), (1, 2)], "aabb"))
    check(intents_of([(0, 2), (0, 2), (1, 2), (1, 2)], "a-b-"))
    check(intents_of([(0, 1), (0, 1)], "aa"))


def test_ranks_with_other_plans_are_named() -> None:
    ranks = intents_of([(0, 4), (1, 4), (2, 4), (3, 4)])
    ranks[2] = replace(ranks[2], plan="b" * 64)
    with pytest.raises(ConfigError, match=r"aaaaaaaaaaaa on ranks 0, 1, 3, bbbbbbbbbbbb on ranks 2;"):
        check(ranks)


def test_ranks_that_are_given_the_same_batch_are_named() -> None:
    ranks = intents_of([(0, 3), (1, 3), (2, 3)], "aba")
    with pytest.raises(ConfigError, match="ranks 0, 2 of shards 0, 2 are given the same first batch"):
        check(ranks)
    check(ranks, rows_may_repeat=True)


def test_ranks_of_one_shard_with_different_rows_are_named() -> None:
    with pytest.raises(ConfigError, match=r"ranks of shard 0 read different rows: .* on ranks 0, .* on ranks 1;"):
        check(intents_of([(0, 2), (0, 2), (1, 2)], "abc"))


def test_shards_that_do_not_add_up_are_named() -> None:
    with pytest.raises(ConfigError, match="no rank takes shard 1 of 2: shard 0 on ranks 0, 1;"):
        check(intents_of([(0, 2), (0, 2)], "aa"))
    with pytest.raises(ConfigError, match="different numbers of shards: 2 on ranks 0, 4 on ranks 1;"):
        check(intents_of([(0, 2), (1, 4)]))


def test_thousands_of_ranks_make_one_short_line() -> None:
    with pytest.raises(ConfigError) as caught:
        check(intents_of([(0, 2)] * 5000, "a" * 5000))
    assert len(str(caught.value)) < 300 and "and 4992 more" in str(caught.value)


def test_two_processes_find_out_what_they_disagree_on(blend: dict[str, object], tmp_path: Path) -> None:
    script = str(Path(__file__).parent / "plugins" / "agreeing.py")
    ended, console = msrun([script], 2, tmp_path, {"BLEND": json.dumps(blend), "LOCAL_DEFAULT_PATH": "output"})
    assert ended == 0, console
    for rank in (0, 1):
        outcomes = json.loads((tmp_path / f"outcomes_{rank}.json").read_text())
        assert outcomes["agree"] == outcomes["alike"] == "fine"
        for situation in ("seed", "mask", "start"):
            assert "on ranks 0" in outcomes[situation] and "on ranks 1" in outcomes[situation]
        assert "no rank takes shard 1 of 2: shard 0 on ranks 0, 1" in outcomes["shard"]
    assert "2 ranks read one data plan" in console
