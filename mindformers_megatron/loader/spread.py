"""Lets a data-parallel run load a checkpoint that fewer ranks have written.

Under data parallelism every rank holds, and saves, the whole model: what rank 0 has saved is right for any rank. But
MindFormers looks for a folder of each rank's own. They are made here, of links.
"""

import hashlib
import json
import logging
import os
import re
from pathlib import Path

from mindformers_megatron.format.atomic import write_atomically
from mindformers_megatron.loader.checkpoints import saved_names

logger = logging.getLogger(__name__)

META = "meta.json"


def spread(checkpoints: Path, ranks: int, into: Path) -> Path:
    """Gives each of ``ranks`` ranks a folder with the checkpoints of a data-parallel run.

    Args:
        checkpoints: A folder with ``rank_0``, ``rank_1``, … of MindFormers' legacy layout.
        ranks: Ranks of this run. All of them may call this at once.
        into: Where to make the folders, below one for each ``checkpoints``.

    Returns:
        Where they are; or ``checkpoints`` itself, if it is no such folder, or is one rank's for one rank. Where ranks
        have folders of their own, these are not used: ranks that were killed at different moments have given the same
        name to checkpoints of different steps, since MindFormers numbers them by what lies in a rank's folder.
    """
    folders = list(checkpoints.glob("rank_*"))
    if not saved_names(checkpoints / "rank_0") or (ranks == 1 and len(folders) == 1):
        return checkpoints
    source = (checkpoints / "rank_0").absolute()
    into = into / hashlib.sha256(str(source).encode()).hexdigest()[:8]
    for rank in range(ranks):
        folder = into / f"rank_{rank}"
        folder.mkdir(parents=True, exist_ok=True)
        for link in folder.iterdir():
            if not link.exists():
                # From an earlier run, to a checkpoint that has been deleted since.
                link.unlink(missing_ok=True)
        for file in source.iterdir():
            link = folder / _for_rank(file.name, rank)
            if file.name == META:
                meta = _meta_for_rank(file, rank)
                if meta is not None:
                    write_atomically(link, meta)
            elif not link.exists():
                _link(file, link)
    return into


def _link(file: Path, link: Path) -> None:
    # Under a name of its own first: another rank may be making the same link.
    own = link.with_name(f"{link.name}.{os.getpid()}")
    own.symlink_to(file)
    own.replace(link)


def _meta_for_rank(path: Path, rank: int) -> bytes | None:
    try:
        meta = json.loads(path.read_bytes())
        meta["last_ckpt_file"] = _for_rank(meta["last_ckpt_file"], rank)
    except (ValueError, KeyError, TypeError) as error:
        # MindFormers writes it in place; a kill may cut it short, and it does without it.
        logger.warning("%s: not MindFormers' record of the last checkpoint (%r); left out", path, error)
        return None
    return json.dumps(meta).encode()


def _for_rank(name: str, rank: int) -> str:
    return re.sub(r"_rank_0(?=[-_])", f"_rank_{rank}", name)
