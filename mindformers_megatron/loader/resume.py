"""From what a MindFormers run was told to resume to the data state it goes on from."""

import logging
from pathlib import Path
from typing import Any

from mindformers.core.context.build_context import Context
from mindformers.tools.utils import get_real_rank

from mindformers_megatron.loader import checkpoints
from mindformers_megatron.loader.checkpoints import FoundState

logger = logging.getLogger(__name__)


def find_state(init_step: int, global_batch_size: int) -> FoundState | None:
    """The data state of the checkpoint from which MindFormers, in this process, resumes at ``init_step`` > 0.

    Args:
        init_step: The step it goes on from, in steps of this run.
        global_batch_size: Samples of a step in this run.

    Returns:
        None where there is none, where nothing is resumed, and where ``data_skip_steps`` says how much to skip.

    Raises:
        DataError: One line, for a data state that is damaged.
    """
    config = running_config()
    load_path = (config.get("checkpoint") or {}).get("load_path") or config.get("load_checkpoint")
    if config.get("data_skip_steps"):
        return None
    if not load_path:
        if config:
            logger.warning(
                "the run is resumed at step %d from a checkpoint that its YAML does not name, so that its data state "
                "cannot be found: the data go on behind as many steps of %d samples; name it as load_checkpoint",
                *(init_step, global_batch_size),
            )
        return None
    named = config.get("resume_training")
    name = named if isinstance(named, str) else None
    found = checkpoints.find(Path(load_path), get_real_rank(), name, init_step, global_batch_size)
    if found is None:
        logger.warning(
            "no data state beside the checkpoint of step %d in %s: the data go on behind as many steps of %d samples",
            *(init_step, load_path, global_batch_size),
        )
        return None
    logger.info("data state found: %s", found.saved.path)
    return found


def running_config() -> dict[str, Any]:
    """The YAML that this process runs, as it was given to MindFormers; empty where MindFormers runs nothing."""
    # MindFormers has no public way to ask for it, and passes loaders nothing about checkpoints.
    config: dict[str, Any] = Context._instance.config if Context.is_exists() else {}
    return config
