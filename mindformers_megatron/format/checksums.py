"""``<prefix>.md5``: the checksums of a pair, as ``md5sum -c`` reads them."""

import os
from pathlib import Path

from mindformers_megatron.format.atomic import write_atomically
from mindformers_megatron.format.paths import bin_path, idx_path, prefix_of
from mindformers_megatron.format.writer import WrittenPair


def write_md5(prefix: str | os.PathLike[str], pair: WrittenPair) -> None:
    """Writes the checksums beside the pair.

    Args:
        prefix: of the pair.
        pair: what was written there, with MD5.
    """
    name = prefix_of(prefix)
    sums = ((pair.bin_md5, bin_path(name)), (pair.idx_md5, idx_path(name)))
    lines = "".join(f"{md5}  {path.name}\n" for md5, path in sums)
    write_atomically(Path(f"{name}.md5"), lines.encode(errors="surrogateescape"))
