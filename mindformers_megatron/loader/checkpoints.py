"""Where the data state lies beside a MindFormers checkpoint, in both of its layouts.

- ``iteration_00000010/``: one folder for all ranks → ``data_state.json`` inside, written by rank 0.
- ``rank_0/llama_rank_0-1_10.ckpt`` (or ``.safetensors``): one file a rank → ``….data_state.json`` beside it.

The file is a ``DataState`` with three fields more: ``step`` and ``global_batch_size``, as MindFormers counted them, and
``history``, how they changed.
"""

import json
import logging
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from mindformers_megatron.format.atomic import write_atomically
from mindformers_megatron.sampling.state import DataState
from mindformers_megatron.settings.history import Stretch, to_plain
from mindformers_megatron.settings.saved_state import NAME, SavedState, load_saved_state

logger = logging.getLogger(__name__)

SUFFIX = f".{NAME}"
TRACKER = "latest_checkpointed_iteration.txt"
FORMATS = (".ckpt", ".safetensors")
_ITERATION = "iteration_"


@dataclass(frozen=True, slots=True)
class FoundState:
    """A data state to go on from.

    Attributes:
        saved: What is on disk.
        missing: Samples that steps took between it and the checkpoint; 0 where it lies beside the checkpoint itself.
    """

    saved: SavedState
    missing: int = 0


def state_path(checkpoint: Path) -> Path:
    """The data state of a checkpoint, which is an ``iteration_*`` folder or a file."""
    if checkpoint.suffix in FORMATS:
        return checkpoint.with_suffix(SUFFIX)
    return checkpoint / NAME


def save(
    checkpoint: Path, state: DataState, step: int, global_batch_size: int, history: Sequence[Stretch] = ()
) -> Path:
    """Writes the data state of ``checkpoint`` atomically, and deletes those whose checkpoints are gone."""
    path = state_path(checkpoint)
    body = {**json.loads(state.to_json()), "step": step, "global_batch_size": global_batch_size}
    body["history"] = to_plain(history)
    # MindFormers may write the checkpoint later, in a thread of its own (async_save).
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, (json.dumps(body, ensure_ascii=False) + "\n").encode())
    if path.name != NAME:
        for other in path.parent.glob(f"*{SUFFIX}"):
            # Its own checkpoint may still be on its way to the disk.
            if other != path and not _checkpoint_exists(other):
                other.unlink(missing_ok=True)
    return path


def saved_names(folder: Path) -> list[str]:
    """File names of the whole checkpoints in a rank's folder of the legacy layout, as rank 0 calls them; oldest first.

    Epoch and step in a name do not tell which is newer: MindFormers counts them anew whenever a run is resumed.
    """
    # MindSpore writes a checkpoint under another name and renames it.
    files = [path for path in folder.glob("*") if path.suffix in FORMATS]
    files.sort(key=lambda path: path.stat().st_mtime_ns)
    return [re.sub(r"_rank_\d+(?=[-_])", "_rank_0", path.name) for path in files]


def find(load_path: Path, rank: int, name: str | None, init_step: int, global_batch_size: int) -> FoundState | None:
    """Finds the data state of the checkpoint that MindFormers has resumed from.

    A process may be killed between a checkpoint and its data state. Then the state of the checkpoint before tells
    where that one stood, because all steps between took as many samples.

    Args:
        load_path: What the run was told to load: a checkpoint of either layout, or a folder of them.
        rank: This rank; where it has no state, the run had fewer ranks, and rank 0's is as good.
        name: The file that ``resume_training`` names, if it does.
        init_step: The step that MindFormers goes on from, by which the right file is told from its neighbours.
        global_batch_size: Samples of a step in this run.

    Returns:
        The newest one that fits, or else the nearest one of an earlier step; None if there is neither.

    Raises:
        DataError: One line, for a data state that is damaged.
    """
    earlier: list[SavedState] = []
    for folder in _folders(load_path, rank):
        saved = [load_saved_state(path) for path in sorted(folder.glob(f"*{SUFFIX}"))]
        wanted = _for_rank(name or load_path.name, folder) if name or load_path.suffix in FORMATS else None
        fitting = [
            state
            for state in saved
            if state.step_under(global_batch_size) == init_step and (wanted is None or state.path.name == wanted)
        ]
        if fitting:
            return FoundState(max(fitting, key=_time))
        earlier += saved
    for iteration in _iterations(load_path):
        state = load_saved_state(iteration / NAME)
        if state.step_under(global_batch_size) == init_step:
            return FoundState(state)
        earlier.append(state)
    before = [state for state in earlier if state.step_under(global_batch_size) < init_step]
    if not before:
        return None
    nearest = max(before, key=lambda state: (state.step_under(global_batch_size), _time(state)))
    missing = (init_step - nearest.step_under(global_batch_size)) * global_batch_size
    logger.warning(
        "no data state beside the checkpoint of step %d; that of step %d, and the %d samples between, tell where the "
        "data go on",
        *(init_step, nearest.step, missing),
    )
    return FoundState(nearest, missing)


def _folders(load_path: Path, rank: int) -> Iterable[Path]:
    """Where data states of the legacy layout may lie, the likeliest first."""
    if load_path.suffix in FORMATS:
        return [load_path.parent]
    return [load_path / f"rank_{rank}", *([load_path / "rank_0"] if rank else []), load_path]


def _iterations(load_path: Path) -> Iterable[Path]:
    """Folders of the new layout that hold a data state: the one that is loaded, then all others, newest first."""
    loaded = load_path if load_path.name.startswith(_ITERATION) else _latest(load_path)
    root = load_path.parent if loaded == load_path else load_path
    others = sorted(root.glob(f"{_ITERATION}*"), reverse=True) if loaded != root else []
    return [folder for folder in dict.fromkeys([loaded, *others]) if (folder / NAME).is_file()]


def _latest(root: Path) -> Path:
    tracker = root / TRACKER
    iteration = tracker.read_text(encoding="utf-8").strip() if tracker.is_file() else ""
    return root / f"{_ITERATION}{int(iteration):08d}" if iteration.isdigit() else root


def _for_rank(name: str, folder: Path) -> str:
    # Names may hold dots of their own: only what is a format is cut off.
    stem = name.removesuffix(".ckpt").removesuffix(".safetensors")
    rank = folder.name.removeprefix("rank_")
    return (re.sub(r"_rank_\d+", f"_rank_{rank}", stem) if rank.isdigit() else stem) + SUFFIX


def _time(state: SavedState) -> int:
    return state.path.stat().st_mtime_ns


def _checkpoint_exists(state: Path) -> bool:
    stem = state.name.removesuffix(SUFFIX)
    return any((state.parent / f"{stem}{kind}").exists() for kind in FORMATS)
