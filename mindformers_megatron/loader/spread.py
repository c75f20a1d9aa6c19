"""Lets a data-parallel run load a checkpoint that fewer ranks have written.

Under data parallelism every rank holds, and saves, the whole model: what rank 0 has saved is right for any rank. But
MindFormers looks for a folder of each rank's own. They are made here, of links.
"""

import hashlib
import json
import os
import re
from pathlib import Path

from mindformers_megatron.errors import DataError
from mindformers_megatron.format.atomic import write_atomically

META = "meta.json"


def spread(checkpoints: Path, ranks: int, into: Path) -> Path:
    """Gives each of ``ranks`` ranks a folder with the checkpoints of a data-parallel run.

    Args:
        checkpoints: A folder with ``rank_0``, ``rank_1``, … of MindFormers' legacy layout.
        ranks: Ranks of this run. All of them may call this at once.
        into: Where to make the folders, below one for each ``checkpoints``.

    Returns:
        Where they are; or ``checkpoints`` itself, if every rank has a folder there that is as new as rank 0's, or if it
        is no such folder. Ranks may lag behind rank 0: fewer of them have gone on since, or were killed a little later.

    Raises:
        DataError: For a damaged ``meta.json``.
    """
    newest = [_newest(checkpoints / f"rank_{rank}") for rank in range(ranks)]
    if newest[0] is None or all(other is not None and other >= newest[0] for other in newest[1:]):
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
                write_atomically(link, _meta_for_rank(file, rank))
            elif not link.exists():
                _link(file, link)
    return into


def _newest(folder: Path) -> tuple[int, int] | None:
    """Epoch and step of the last checkpoint in a rank's folder; (0, 0) if its record is of no use; None: no folder."""
    if not folder.is_dir():
        return None
    try:
        meta = json.loads((folder / META).read_bytes())
        return int(meta["last_epoch"]), int(meta["last_step"])
    except (OSError, ValueError, KeyError, TypeError):
        return 0, 0


def _link(file: Path, link: Path) -> None:
    # Under a name of its own first: another rank may be making the same link.
    own = link.with_name(f"{link.name}.{os.getpid()}")
    own.symlink_to(file)
    own.replace(link)


def _meta_for_rank(path: Path, rank: int) -> bytes:
    try:
        meta = json.loads(path.read_bytes())
        meta["last_ckpt_file"] = _for_rank(meta["last_ckpt_file"], rank)
    except (ValueError, KeyError, TypeError) as error:
        raise DataError(f"{path}: not MindFormers' record of the last checkpoint ({error!r})") from None
    return json.dumps(meta).encode()


def _for_rank(name: str, rank: int) -> str:
    return re.sub(r"_rank_0(?=[-_])", f"_rank_{rank}", name)
