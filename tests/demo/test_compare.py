"""Two runs are equal only if every loss and every token is."""

import json
import math
from dataclasses import replace

import pytest

from mindformers_megatron.demo.compare import Step, compare, read_steps
from mindformers_megatron.errors import DataError

STEPS = 12


def run(first: int = 1, last: int = STEPS) -> list[Step]:
    return [Step(step=n, loss=8.0 / n, rows=((n, n + 1), (n + 2, n + 3))) for n in range(first, last + 1)]


def test_a_run_killed_between_checkpoints_and_resumed_is_equal_if_every_step_is():
    comparison = compare(run(), run(last=7), run(first=6), STEPS)
    assert comparison.equal
    assert (comparison.killed_after, comparison.resumed_after) == (7, 5)
    assert [line.step for line in comparison.lines] == list(range(1, STEPS + 1))


@pytest.mark.parametrize("where", ["killed", "resumed"])
def test_one_loss_that_differs_in_its_last_bit_is_found(where):
    killed, resumed = run(last=7), run(first=6)
    changed = {"killed": killed, "resumed": resumed}[where]
    changed[-1] = replace(changed[-1], loss=math.nextafter(changed[-1].loss, math.inf))
    comparison = compare(run(), killed, resumed, STEPS)
    assert not comparison.equal
    assert [line.step for line in comparison.lines if not line.equal] == [changed[-1].step]


def test_equal_losses_on_other_tokens_are_not_equal():
    resumed = run(first=6)
    resumed[0] = replace(resumed[0], rows=((1, 2), (3, 4)))
    assert not compare(run(), run(last=7), resumed, STEPS).equal


def test_a_loss_that_is_no_number_is_equal_to_nothing():
    runs = [[replace(step, loss=float("nan")) for step in part] for part in (run(), run(last=7), run(first=6))]
    assert not compare(*runs, STEPS).equal


@pytest.mark.parametrize(
    ("straight", "killed", "resumed"),
    [
        (run(last=11), run(last=7), run(first=6)),
        (run(), run(last=7), run(first=6, last=11)),
        (run(), run(last=5), run(first=7)),
        (run(), [], run()),
        (run(), run(), []),
    ],
    ids=["straight ends early", "resumed ends early", "a step is skipped", "killed before a step", "never resumed"],
)
def test_missing_steps_are_not_equal(straight, killed, resumed):
    assert not compare(straight, killed, resumed, STEPS).equal


def test_a_run_that_lost_nothing_by_the_kill_proves_nothing():
    assert not compare(run(), run(last=5), run(first=6), STEPS).equal
    assert not compare(run(), run(last=5), run(first=1), STEPS).equal


def test_the_final_steps_are_those_of_the_model_that_came_out():
    resumed = [replace(step, loss=-step.loss) for step in run(first=6)]
    final = list(compare(run(), run(last=7), resumed, STEPS).final())
    assert [step.step for step in final] == list(range(1, STEPS + 1))
    assert [step.loss < 0 for step in final] == [False] * 5 + [True] * 7


def test_steps_are_read_as_they_were_logged_to_the_last_bit(tmp_path):
    losses = [8.317896842956543, 0.1 + 0.2, 1e-45]
    lines = [json.dumps({"step": n, "loss": loss, "input_ids": [[n, 7]]}) for n, loss in enumerate(losses, start=1)]
    (tmp_path / "steps.jsonl").write_text("\n".join(lines) + "\n")
    assert read_steps(tmp_path / "steps.jsonl") == [
        Step(step=n, loss=loss, rows=((n, 7),)) for n, loss in enumerate(losses, start=1)
    ]


def test_the_line_that_a_kill_cut_off_is_left_out(tmp_path):
    (tmp_path / "steps.jsonl").write_text('{"step": 1, "loss": 2.5, "input_ids": []}\n{"step": 2, "lo')
    assert [step.step for step in read_steps(tmp_path / "steps.jsonl")] == [1]


def test_a_log_that_is_missing_or_broken_is_named(tmp_path):
    with pytest.raises(DataError, match=r"steps\.jsonl: cannot be read"):
        read_steps(tmp_path / "steps.jsonl")
    (tmp_path / "steps.jsonl").write_text('{"step": 1, "loss": 2.5, "input_ids": []}\n{"step": 2}\n')
    with pytest.raises(DataError, match="line 2: is no logged step"):
        read_steps(tmp_path / "steps.jsonl")
