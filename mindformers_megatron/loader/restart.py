"""One command for the first start of a run and for every one after it was killed."""

import logging
from pathlib import Path
from typing import Any

from mindformers_megatron.loader.checkpoints import FORMATS, TRACKER, saved_names
from mindformers_megatron.settings import run_config

logger = logging.getLogger(__name__)

# MindFormers' own other ways to choose among the checkpoints of a folder.
_OTHER_CHOICES = ("resume_by_last_timestamp_ckpt", "use_checkpoint_health_monitor")


def settle_resume(config: dict[str, Any]) -> None:
    """Says what a run is to resume from in the way that MindFormers understands; in place.

    A checkpoint may be given as a file. And a run that is to resume from its own checkpoints begins at the beginning
    while it has none: MindFormers fails where there is nothing to resume from, and on what a process killed in its
    first checkpoint left behind. Only the folder that the run itself writes is forgiven that: any other that holds no
    checkpoint stays an error, for a path with a typing mistake must not start a training anew.

    Args:
        config: MindFormers' YAML; ``load_checkpoint`` (or ``checkpoint.load_path``) and ``resume_training`` are set to
            what MindFormers takes for a first start.
    """
    _name_file(config)
    checkpoint = config.get("checkpoint") or {}
    asked = checkpoint.get("load_path") or config.get("load_checkpoint")
    if config.get("resume_training") is not True or not asked:
        return
    whole_model = run_config.holds_whole_model(config)
    if checkpoint and not config.get("use_legacy_format", True):
        _mend_tracker(checkpoint, Path(asked))
    else:
        _name_newest(config, Path(asked), whole_model)
    own = Path(checkpoint.get("save_path") or Path(config.get("output_dir") or "./output") / "checkpoint")
    if Path(asked).resolve() != own.resolve() or _has_checkpoint(own, whole_model):
        return
    logger.info("no checkpoint in %s yet: the training begins at its first step", own)
    config["resume_training"] = False
    config["load_checkpoint"] = ""
    if checkpoint:
        checkpoint["load_path"] = ""


def _name_file(config: dict[str, Any]) -> None:
    """Says in MindFormers' way that one file is to be resumed from: it takes folders only, and the file by its name."""
    path = Path(str(config.get("load_checkpoint") or ""))
    if config.get("resume_training") and path.suffix in FORMATS and path.parent.name.startswith("rank_"):
        config["load_checkpoint"], config["resume_training"] = str(path.parent.parent), path.name


def _mend_tracker(checkpoint: dict[str, Any], asked: Path) -> None:
    """Names the newest whole checkpoint, where a process was killed while MindFormers wrote which one that is."""
    tracker = asked / TRACKER
    if not tracker.is_file() or _names_iteration(tracker):
        return
    newest = max(_whole_iterations(asked), default=None)
    if newest is not None:
        logger.warning("%s was cut short; the newest checkpoint there is %s", tracker, newest.name)
        checkpoint["load_path"] = str(newest)


def _has_checkpoint(folder: Path, whole_model: bool) -> bool:
    # The new layout names a checkpoint in its tracker when all of it is written; the legacy one has files only.
    tracker = folder / TRACKER
    if tracker.is_file() and (_names_iteration(tracker) or _whole_iterations(folder)):
        return True
    return bool(_whole_names(folder, whole_model))


def _whole_names(folder: Path, whole_model: bool) -> list[str]:
    """The checkpoints of the legacy layout that a run can resume from, oldest first."""
    first = saved_names(folder / "rank_0")
    if whole_model:
        # Any rank can load what rank 0 has saved; see ``spread``.
        return first
    others = [set(saved_names(rank)) for rank in folder.glob("rank_*")]
    return [name for name in first if all(name in other for other in others)]


def _name_newest(config: dict[str, Any], folder: Path, whole_model: bool) -> None:
    """Names the newest checkpoint that all ranks can load, where they may have been killed at different ones.

    Left to itself MindFormers compares the ranks' own records of their last ones, and fails where these lie in
    different starts of the run.
    """
    names = _whole_names(folder, whole_model)
    if names and len(list(folder.glob("rank_*"))) > 1 and not any(config.get(name) for name in _OTHER_CHOICES):
        config["resume_training"] = names[-1]


def _names_iteration(tracker: Path) -> bool:
    return tracker.read_text(encoding="utf-8", errors="replace").strip().isdigit()


def _whole_iterations(folder: Path) -> list[Path]:
    # The last file that MindFormers writes before the tracker, but for one that may be missing.
    return [found for found in folder.glob("iteration_*") if (found / "common.json").is_file()]
