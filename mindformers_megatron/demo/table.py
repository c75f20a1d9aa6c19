"""The outcome, for people and for programs."""

from collections.abc import Iterator
from typing import Any

from mindformers_megatron.demo.compare import Comparison, Line, Step
from mindformers_megatron.demo.outcome import Outcome

_NONE = "–"


def render(outcome: Outcome) -> str:
    """The outcome as text: shares, losses, verdicts."""
    return "\n".join([*_shares(outcome), "", *_losses(outcome.comparison), "", *_verdicts(outcome)])


def as_json(outcome: Outcome) -> dict[str, Any]:
    """The outcome as plain values."""
    comparison = outcome.comparison
    return {
        "proved": outcome.proved,
        "equal": comparison.equal,
        "killed_after": comparison.killed_after,
        "resumed_after": comparison.resumed_after,
        "shares": [
            {
                "corpus": straight.name,
                "asked": straight.weight,
                "straight": {"rows": straight.rows, "of": straight.of},
                "resumed": {"rows": resumed.rows, "of": resumed.of},
            }
            for straight, resumed in zip(outcome.straight, outcome.resumed, strict=True)
        ],
        "steps": [
            {
                "step": line.step,
                "straight": _loss(line.straight),
                "killed": _loss(line.killed),
                "resumed": _loss(line.resumed),
                "equal": line.equal,
            }
            for line in comparison.lines
        ],
    }


def _shares(outcome: Outcome) -> Iterator[str]:
    yield f"{'corpus':<10}{'asked':>8}{'straight through':>25}{'killed and resumed':>25}"
    for both in zip(outcome.straight, outcome.resumed, strict=True):
        cells = (f"{share.delivered:.1%} ({share.rows} of {share.of} rows)" for share in both)
        yield f"{both[0].name:<10}{both[0].weight:>8.1%}" + "".join(f"{cell:>25}" for cell in cells)


def _losses(comparison: Comparison) -> Iterator[str]:
    yield f"{'step':>4}  {'straight through':<20}{'until the kill':<20}{'after the resume':<20}equal"
    for line in comparison.lines:
        cells = "".join(f"{_text(step):<20}" for step in (line.straight, line.killed, line.resumed))
        yield f"{line.step:>4}  {cells}{'yes' if line.equal else 'NO'}{_event(line, comparison)}"


def _event(line: Line, comparison: Comparison) -> str:
    if line.step == comparison.resumed_after:
        return "  ← the checkpoint it went on from"
    return "  ← killed (SIGKILL)" if line.step == comparison.killed_after else ""


def _verdicts(outcome: Outcome) -> Iterator[str]:
    comparison = outcome.comparison
    killed, resumed, steps = comparison.killed_after, comparison.resumed_after, len(comparison.lines)
    different = [line.step for line in comparison.lines if not line.equal]
    if different:
        yield f"NOT EQUAL: {len(different)} of {steps} steps differ or are missing, the first is step {different[0]}"
    elif comparison.equal:
        yield (
            f"equal: {steps} of {steps} losses and all tokens, to the last bit; "
            f"killed after step {killed}, {killed - resumed} steps done again from step {resumed}"
        )
    else:
        yield (
            f"NOT PROVED: killed after step {killed}, resumed after step {resumed} of {steps}; "
            "the kill was to fall between two checkpoints"
        )
    yield f"shares: OFF for {', '.join(outcome.off)}" if outcome.off else "shares: as asked, to the row"


def _text(step: Step | None) -> str:
    # repr is the shortest text that reads back as the same number: no digit is hidden.
    return _NONE if step is None else repr(step.loss)


def _loss(step: Step | None) -> float | None:
    return None if step is None else step.loss
