"""From a step of a run to the numbers of its samples, and back."""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mindformers_megatron.errors import ConfigError
from mindformers_megatron.settings.saved_state import SavedState

I64 = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Anchor:
    """A point of the run that is known for sure.

    Attributes:
        step: Steps done.
        samples: Samples given in them, over all ranks.
        global_batch_size: Samples of each step that led here.
    """

    step: int
    samples: int
    global_batch_size: int


@dataclass(frozen=True, slots=True)
class StepMap:
    """Which samples each step of a run was given.

    Between two saved states the size of a step is that of the later one; beyond the last it is ``global_batch_size``.

    Attributes:
        anchors: Points that saved states tell, ascending by step; at least the start of the run.
        global_batch_size: Samples of a step behind the last anchor.
    """

    anchors: tuple[Anchor, ...]
    global_batch_size: int

    @classmethod
    def of(cls, states: Sequence[SavedState], global_batch_size: int) -> "StepMap":
        """Builds the map of a run from the states it left behind, in any order.

        Raises:
            ConfigError: One line, for states of more than one run.
        """
        anchors = [Anchor(0, 0, global_batch_size)]
        for saved in sorted(states, key=lambda saved: saved.step):
            anchor = Anchor(saved.step, saved.state.consumed_samples, saved.global_batch_size)
            if anchor.step == anchors[-1].step:
                continue
            if anchor.samples < anchors[-1].samples:
                raise ConfigError(
                    f"{saved.path}: step {anchor.step} stands at sample {anchor.samples}, an earlier step at "
                    f"{anchors[-1].samples}; these states are of different runs, name one with --state"
                )
            anchors.append(anchor)
        return cls(tuple(anchors), global_batch_size)

    def samples_of(self, step: int) -> I64:
        """The samples of a step, counted from 1, over all ranks, in the order of the rows: int64[global batch]."""
        if step < 1:
            raise ConfigError(f"step {step}: steps count from 1")
        place = bisect_left([anchor.step for anchor in self.anchors], step)
        if place < len(self.anchors):
            anchor = self.anchors[place]
            size, first = anchor.global_batch_size, anchor.samples - (anchor.step - step + 1) * anchor.global_batch_size
        else:
            anchor = self.anchors[-1]
            size, first = self.global_batch_size, anchor.samples + (step - anchor.step - 1) * self.global_batch_size
        return np.arange(max(first, 0), first + size, dtype=np.int64)

    def step_of(self, sample: int) -> int:
        """The step, counted from 1, that was given a sample."""
        samples = [anchor.samples for anchor in self.anchors]
        place = bisect_left(samples, sample + 1)
        if place < len(self.anchors):
            anchor = self.anchors[place]
            return anchor.step - (anchor.samples - 1 - sample) // anchor.global_batch_size
        return self.anchors[-1].step + 1 + (sample - samples[-1]) // self.global_batch_size
