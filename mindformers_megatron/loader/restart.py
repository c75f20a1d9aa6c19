"""One command for the first start of a run and for every one after it was killed."""

import logging
from pathlib import Path
from typing import Any

from mindformers_megatron.loader.checkpoints import TRACKER

logger = logging.getLogger(__name__)


def settle_resume(config: dict[str, Any]) -> None:
    """Lets a run that is to resume from its own checkpoints begin at the beginning while it has none; in place.

    MindFormers fails where there is nothing to resume from, and on what a process killed in its first checkpoint left
    behind. Only the folder that the run itself writes is forgiven that: any other that holds no checkpoint stays an
    error, for a path with a typing mistake must not start a training anew.

    Args:
        config: MindFormers' YAML; ``load_checkpoint`` (or ``checkpoint.load_path``) and ``resume_training`` are set to
            what MindFormers takes for a first start.
    """
    checkpoint = config.get("checkpoint") or {}
    asked = checkpoint.get("load_path") or config.get("load_checkpoint")
    if config.get("resume_training") is not True or not asked:
        return
    if checkpoint and not config.get("use_legacy_format", True):
        _mend_tracker(checkpoint, Path(asked))
    own = Path(checkpoint.get("save_path") or Path(config.get("output_dir") or "./output") / "checkpoint")
    if Path(asked).resolve() != own.resolve() or _has_checkpoint(own):
        return
    logger.info("no checkpoint in %s yet: the training begins at its first step", own)
    config["resume_training"] = False
    config["load_checkpoint"] = ""
    if checkpoint:
        checkpoint["load_path"] = ""


def _mend_tracker(checkpoint: dict[str, Any], asked: Path) -> None:
    """Names the newest whole checkpoint, where a process was killed while MindFormers wrote which one that is."""
    tracker = asked / TRACKER
    if not tracker.is_file() or tracker.read_text(encoding="utf-8", errors="replace").strip().isdigit():
        return
    # MindFormers writes the tracker, not at once, when all else of a checkpoint is there.
    whole = [folder for folder in asked.glob("iteration_*") if (folder / "common.json").is_file()]
    newest = max(whole, default=None)
    if newest is not None:
        logger.warning("%s was cut short; the newest checkpoint there is %s", tracker, newest.name)
        checkpoint["load_path"] = str(newest)


def _has_checkpoint(folder: Path) -> bool:
    # The new layout names a checkpoint in its tracker when all of it is written; the legacy one has files only.
    if (folder / TRACKER).is_file():
        return True
    return any(path.suffix in (".ckpt", ".safetensors") for path in folder.glob("rank_*/*"))
