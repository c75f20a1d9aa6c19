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
    own = Path(checkpoint.get("save_path") or Path(config.get("output_dir") or "./output") / "checkpoint")
    if Path(asked).resolve() != own.resolve() or _has_checkpoint(own):
        return
    logger.info("no checkpoint in %s yet: the training begins at its first step", own)
    config["resume_training"] = False
    config["load_checkpoint"] = ""
    if checkpoint:
        checkpoint["load_path"] = ""


def _has_checkpoint(folder: Path) -> bool:
    # The new layout names a checkpoint in its tracker when all of it is written; the legacy one has files only.
    if (folder / TRACKER).is_file():
        return True
    return any(path.suffix in (".ckpt", ".safetensors") for path in folder.glob("rank_*/*"))
