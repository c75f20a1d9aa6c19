"""Two runs side by side: one that went straight through, and one that was killed and resumed."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from mindformers_megatron.errors import DataError


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What a run logged of one step.

    Attributes:
        step: its number in the run, from 1, counted on through a resume.
        loss: as the program computed it; nothing is rounded.
        rows: the token ids that the model was given, one tuple a row.
    """

    step: int
    loss: float
    rows: tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One step of both runs.

    Attributes:
        step: its number.
        straight: of the run that went straight through; None where it is missing.
        killed: of the other run before it was killed; None for steps that it did not reach.
        resumed: of the other run after it was resumed; None for steps that it had behind it.
    """

    step: int
    straight: Step | None
    killed: Step | None
    resumed: Step | None

    @property
    def equal(self) -> bool:
        """Whether all who took the step had the same loss, to the last bit, and the same tokens."""
        others = [step for step in (self.killed, self.resumed) if step is not None]
        return self.straight is not None and bool(others) and all(step == self.straight for step in others)


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """All steps of both runs.

    Attributes:
        lines: one for each step that was to be taken, in order.
        killed_after: the last step before the kill.
        resumed_after: the step whose checkpoint the resumed run went on from.
    """

    lines: tuple[Line, ...]
    killed_after: int
    resumed_after: int

    @property
    def equal(self) -> bool:
        """Whether the runs are the same at every step, and the kill cost steps that had to be done again."""
        return all(line.equal for line in self.lines) and 0 < self.resumed_after < self.killed_after < len(self.lines)

    def final(self) -> Iterator[Step]:
        """The steps that the interrupted run's model came from: what it lost by the kill is not among them."""
        for line in self.lines:
            step = line.resumed or line.killed
            if step is not None:
                yield step


def read_steps(path: Path) -> list[Step]:
    """Reads the steps that a run logged.

    A last line without an end is left out: the run was killed while it wrote it.

    Raises:
        DataError: the file is missing, or a line is no step.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror}; the run ended before its first step") from None
    steps = []
    for number, line in enumerate(content.split(b"\n")[:-1], start=1):
        try:
            record = json.loads(line)
            rows = tuple(tuple(map(int, row)) for row in record["input_ids"])
            steps.append(Step(step=int(record["step"]), loss=float(record["loss"]), rows=rows))
        except (ValueError, KeyError, TypeError) as error:
            raise DataError(f"{path}, line {number}: is no logged step ({error})") from None
    return steps


def compare(straight: Sequence[Step], killed: Sequence[Step], resumed: Sequence[Step], steps: int) -> Comparison:
    """Lays the runs side by side.

    Args:
        straight: the steps of the run that went straight through.
        killed: those of the other one before it was killed.
        resumed: those after it was resumed.
        steps: how many were to be taken.
    """
    first, before, after = ({step.step: step for step in run} for run in (straight, killed, resumed))
    lines = tuple(
        Line(step=number, straight=first.get(number), killed=before.get(number), resumed=after.get(number))
        for number in range(1, steps + 1)
    )
    return Comparison(lines=lines, killed_after=max(before, default=0), resumed_after=min(after, default=steps + 1) - 1)
