"""From a step of a run to the numbers of its samples, and back."""

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import zip_longest

from mindformers_megatron.errors import ConfigError
from mindformers_megatron.settings.history import Stretch


@dataclass(frozen=True, slots=True)
class Place:
    """Where a sample was in the run.

    Attributes:
        step: The step, counted from 1 as MindFormers does.
        rank: Among the ranks that read different rows.
        row: In the rank's batch.
        sample: Its number, over all ranks.
    """

    step: int
    rank: int
    row: int
    sample: int

    def to_plain(self) -> dict[str, int]:
        """By name, for JSON."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class StepMap:
    """Which samples each step of a run was given, on which rank.

    A run that goes on with steps of another size counts its steps anew: step 6 of 4 samples is followed by step 5 of 6
    samples, so that there are two steps 5. Where steps become smaller, some numbers are left out instead.

    Attributes:
        stretches: The run in stretches of steps of one size, ascending by sample; the last one has no end.
    """

    stretches: tuple[Stretch, ...]

    def places(self, step: int) -> list[Place]:
        """The rows of a step, in the order of the samples; of all steps that were counted by this number.

        Raises:
            ConfigError: There was no such step.
        """
        found = [
            Place(step, row % stretch.ranks, row // stretch.ranks, sample)
            for stretch, samples in self._steps(step)
            for row, sample in enumerate(samples)
        ]
        if not found:
            raise ConfigError(self._missing(step))
        return found

    def place_of(self, sample: int) -> Place:
        """The place of a sample.

        Raises:
            ConfigError: The run began behind it.
        """
        number = bisect_right(self.stretches, sample, key=lambda stretch: stretch.sample) - 1
        if number < 0:
            raise ConfigError(f"sample {sample}: the run began with sample {self.stretches[0].sample}")
        stretch = self.stretches[number]
        step, row = divmod(sample - stretch.sample, stretch.global_batch_size)
        return Place(stretch.step + 1 + step, row % stretch.ranks, row // stretch.ranks, sample)

    def times(self, step: int) -> list[range]:
        """The samples of a step, once for each time that a step was counted by this number."""
        return [samples for _, samples in self._steps(step)]

    def behind(self, step: int) -> int:
        """The sample behind the last one of a step, or of the last one before it."""
        ends = [
            min(stretch.sample + (step - stretch.step) * stretch.global_batch_size, after.sample if after else 1 << 62)
            for stretch, after in self._with_next()
            if step > stretch.step
        ]
        return max(ends, default=0)

    def _steps(self, step: int) -> Iterator[tuple[Stretch, range]]:
        if step < 1:
            raise ConfigError(f"step {step}: steps count from 1")
        for stretch, after in self._with_next():
            first = stretch.sample + (step - stretch.step - 1) * stretch.global_batch_size
            if step > stretch.step and (after is None or first < after.sample):
                yield stretch, range(first, first + stretch.global_batch_size)

    def _with_next(self) -> Iterator[tuple[Stretch, Stretch | None]]:
        return zip_longest(self.stretches, self.stretches[1:])

    def _missing(self, step: int) -> str:
        before, after = None, self.stretches[0]
        for stretch, following in self._with_next():
            if stretch.step < step and following is not None:
                before, after = stretch, following
        began = f"step {after.step + 1}, of {after.global_batch_size} samples"
        if before is None:
            return f"there is no step {step}: the run began with {began}"
        last = before.step + (after.sample - before.sample) // before.global_batch_size
        return f"there is no step {step}: step {last}, of {before.global_batch_size}, was followed by {began}"
