"""Where the data state lies beside a MindFormers checkpoint, in both of its layouts.

- ``iteration_00000010/``: one folder for all ranks → ``data_state.json`` inside, written by rank 0.
- ``rank_0/llama_rank_0-1_10.ckpt`` (or ``.safetensors``): one file a rank → ``….data_state.json`` beside it.

The file is a ``DataState`` with three fields more: ``step`` and ``global_batch_size``, as MindFormers counted them, and
``history``, how they changed.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mindformers_megatron.errors import DataError
from mindformers_megatron.format.atomic import write_atomically
from mindformers_megatron.loader.history import Stretch, to_plain
from mindformers_megatron.sampling.state import DataState

NAME = "data_state.json"
SUFFIX = f".{NAME}"
TRACKER = "latest_checkpointed_iteration.txt"


@dataclass(frozen=True, slots=True)
class SavedState:
    """A data state on disk.

    Attributes:
        path: Its file.
        state: The cursor.
        step: Step of the checkpoint it lies beside, as MindFormers counted then.
        global_batch_size: Samples of a step at that time.
    """

    path: Path
    state: DataState
    step: int
    global_batch_size: int

    def step_under(self, global_batch_size: int) -> int:
        """The step that MindFormers resumes at from this checkpoint, when a step now takes ``global_batch_size``."""
        return int(self.step * (self.global_batch_size / global_batch_size))


def state_path(checkpoint: Path) -> Path:
    """The data state of a checkpoint, which is an ``iteration_*`` folder or a file."""
    return checkpoint / NAME if checkpoint.is_dir() else checkpoint.with_suffix(SUFFIX)


def save(
    checkpoint: Path, state: DataState, step: int, global_batch_size: int, history: Sequence[Stretch] = ()
) -> Path:
    """Writes the data state of ``checkpoint`` atomically, and deletes those whose checkpoints are gone."""
    path = state_path(checkpoint)
    body = {**json.loads(state.to_json()), "step": step, "global_batch_size": global_batch_size}
    body["history"] = to_plain(history)
    write_atomically(path, (json.dumps(body, ensure_ascii=False) + "\n").encode())
    if path.name != NAME:
        for other in path.parent.glob(f"*{SUFFIX}"):
            # Its own checkpoint may still be on its way to the disk (async_save).
            if other != path and not _checkpoint_exists(other):
                other.unlink(missing_ok=True)
    return path


def load(path: Path) -> SavedState:
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
    return SavedState(path, state, step, size)


def find(load_path: Path, rank: int, name: str | None, init_step: int, global_batch_size: int) -> SavedState | None:
    """Finds the data state of the checkpoint that MindFormers has resumed from.

    Args:
        load_path: What the run was told to load: a checkpoint folder of either layout.
        rank: This rank; where it has no folder, the run had fewer ranks, and rank 0's state is as good.
        name: The file that ``resume_training`` names, if it does.
        init_step: The step that MindFormers goes on from, by which the right file is told from its neighbours.
        global_batch_size: Samples of a step in this run.

    Returns:
        The newest one that fits, or None.

    Raises:
        DataError: One line, for a data state that is damaged.
    """
    folders = (load_path / f"rank_{rank}", load_path / "rank_0", load_path)
    folder = next((folder for folder in folders if any(folder.glob(f"*{SUFFIX}"))), None)
    if folder is not None:
        stem = (
            "*" if name is None else re.sub(r"_rank_\d+", f"_rank_{folder.name.removeprefix('rank_')}", Path(name).stem)
        )
        paths = list(folder.glob(f"{stem}{SUFFIX}"))
    else:
        paths = [path for path in (load_path / NAME, _latest(load_path) / NAME) if path.is_file()][:1]
    found = [saved for saved in map(load, paths) if saved.step_under(global_batch_size) == init_step]
    return max(found, key=lambda saved: saved.path.stat().st_mtime_ns, default=None)


def _latest(root: Path) -> Path:
    tracker = root / TRACKER
    iteration = tracker.read_text(encoding="utf-8").strip() if tracker.is_file() else ""
    return root / f"iteration_{int(iteration):08d}" if iteration.isdigit() else root


def _checkpoint_exists(state: Path) -> bool:
    stem = state.name.removesuffix(SUFFIX)
    return any((state.parent / f"{stem}{kind}").exists() for kind in (".ckpt", ".safetensors"))
