"""What the demo prints says what was found, and no digit of a loss is hidden."""

import json
from dataclasses import replace

from mindformers_megatron.demo.compare import Step, compare
from mindformers_megatron.demo.delivered import Share
from mindformers_megatron.demo.outcome import Outcome
from mindformers_megatron.demo.table import as_json, render

STEPS = [Step(step=n, loss=8.317896842956543 - n, rows=((n,),)) for n in range(1, 11)]
COMPARISON = compare(STEPS, STEPS[:6], STEPS[4:], 10)
SHARES = (Share(name="prose", weight=0.6, rows=6, of=10), Share(name="code", weight=0.4, rows=4, of=10))
OFF = (Share(name="prose", weight=0.6, rows=8, of=10), Share(name="code", weight=0.4, rows=2, of=10))
PROVED = Outcome(comparison=COMPARISON, straight=SHARES, resumed=SHARES)


def test_equal_runs_with_the_shares_asked_for_prove_it():
    assert PROVED.proved
    assert not replace(PROVED, resumed=OFF).proved
    different = compare(STEPS, STEPS[:6], [replace(step, loss=0.0) for step in STEPS[4:]], 10)
    assert not replace(PROVED, comparison=different).proved


def test_the_table_has_a_line_for_each_step_with_all_digits_and_says_where_the_kill_was():
    lines = render(PROVED).splitlines()
    step4, step6 = (next(line for line in lines if line.split()[:1] == [str(n)]) for n in (4, 6))
    assert step4.split()[:5] == ["4", "4.317896842956543", "4.317896842956543", "–", "yes"]
    assert "checkpoint" in step4
    assert step6.split()[1:4] == ["2.317896842956543"] * 3
    assert "killed" in step6
    assert "equal: 10 of 10 losses" in lines[-2]
    assert "killed after step 6, 2 steps done again from step 4" in lines[-2]
    assert lines[-1] == "shares: as asked, to the row"


def test_the_table_shows_shares_asked_and_delivered():
    lines = render(replace(PROVED, resumed=OFF)).splitlines()
    assert lines[1].split() == [
        "prose",
        "60.0%",
        "60.0%",
        "(6",
        "of",
        "10",
        "rows)",
        "80.0%",
        "(8",
        "of",
        "10",
        "rows)",
    ]
    assert lines[-1] == "shares: OFF for code, prose"


def test_the_table_names_the_first_step_that_differs():
    resumed = [replace(step, loss=0.0) if step.step >= 8 else step for step in STEPS[4:]]
    text = render(replace(PROVED, comparison=compare(STEPS, STEPS[:6], resumed, 10)))
    assert "NOT EQUAL: 3 of 10 steps differ or are missing, the first is step 8" in text


def test_runs_that_agree_without_a_real_kill_are_not_called_equal():
    text = render(replace(PROVED, comparison=compare(STEPS, STEPS[:4], STEPS[4:], 10)))
    assert "NOT PROVED: killed after step 4, resumed after step 4" in text


def test_the_json_holds_the_same_and_keeps_every_digit():
    result = json.loads(json.dumps(as_json(replace(PROVED, resumed=OFF))))
    assert (result["proved"], result["equal"], result["killed_after"], result["resumed_after"]) == (False, True, 6, 4)
    assert result["steps"][3] == {
        "step": 4,
        "straight": 4.317896842956543,
        "killed": 4.317896842956543,
        "resumed": None,
        "equal": True,
    }
    assert result["shares"][0]["resumed"] == {"rows": 8, "of": 10}
