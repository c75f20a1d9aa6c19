"""One command for the first start of a run and for every one after it was killed."""

import logging
from pathlib import Path
from typing import Any

from mindformers_megatron.loader.checkpoints import FORMATS, TRACKER, saved_steps
from mindformers_megatron.settings import run_config

logger = logging.getLogger(__name__)


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
    if checkpoint and not config.get("use_legacy_format", True):
        _mend_tracker(checkpoint, Path(asked))
    own = Path(checkpoint.get("save_path") or Path(config.get("output_dir") or "./output") / "checkpoint")
    if Path(asked).resolve() != own.resolve() or _has_checkpoint(own, run_config.holds_whole_model(config)):
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
    ranks = [saved_steps(rank) for rank in folder.glob("rank_*")]
    if whole_model:
        # Any rank can load what rank 0 has saved; see ``spread``.
        return bool(saved_steps(folder / "rank_0"))
    return bool(ranks) and bool(set.intersection(*ranks))


def _names_iteration(tracker: Path) -> bool:
    return tracker.read_text(encoding="utf-8", errors="replace").strip().isdigit()


def _whole_iterations(folder: Path) -> list[Path]:
    # The last file that MindFormers writes before the tracker, but for one that may be missing.
    return [found for found in folder.glob("iteration_*") if (found / "common.json").is_file()]
