"""A data state as it lies beside a MindFormers checkpoint: the cursor, and the step it belongs to."""

import json
from dataclasses import dataclass
from pathlib import Path

from mindformers_megatron.errors import DataError
from mindformers_megatron.sampling.state import DataState
from mindformers_megatron.settings.history import Stretch, from_plain

NAME = "data_state.json"


@dataclass(frozen=True, slots=True)
class SavedState:
    """A data state on disk.

    Attributes:
        path: Its file.
        state: The cursor.
        step: Step of the checkpoint it lies beside, as MindFormers counted then.
        global_batch_size: Samples of a step at that time.
        history: How the run was cut into steps up to there; empty where an older program wrote the state.
    """

    path: Path
    state: DataState
    step: int
    global_batch_size: int
    history: tuple[Stretch, ...] = ()

    def step_under(self, global_batch_size: int) -> int:
        """The step that MindFormers resumes at from this checkpoint, when a step now takes ``global_batch_size``."""
        return int(self.step * (self.global_batch_size / global_batch_size))


def load_saved_state(path: Path) -> SavedState:
    """Reads a data state.

    Raises:
        DataError: One line, for a file that is damaged or incomplete.
    """
    state = DataState.load(path)
    body = json.loads(path.read_bytes())
    step, size = body.get("step"), body.get("global_batch_size")
    if not isinstance(step, int) or not isinstance(size, int) or step < 0 or size < 1:
        raise DataError(
            f"{path}: step {step!r} and global_batch_size {size!r} do not belong to a checkpoint's data state"
        )
    return SavedState(path, state, step, size, from_plain(body.get("history"), path))
