"""Pairs as people name them: by prefix, by a file, by all that a shell finds, or by their folder."""

import os
from collections.abc import Sequence
from pathlib import Path


def named_pairs(given: Sequence[str], *, leave_out: str | None = None) -> list[str]:
    """The prefixes of the pairs that are named, each once, in the order given.

    Args:
        given: prefixes, ``.bin`` or ``.idx`` files, or folders, which stand for all pairs in them.
        leave_out: a pair that is to be written, and so is none of those in a folder.

    Raises:
        ConfigError: a folder has no pairs, or no pair is named.
        DataError: one of a pair's two files is missing from a folder.
    """
    from mindformers_megatron.errors import ConfigError
    from mindformers_megatron.format.folders import pairs_in
    from mindformers_megatron.format.paths import prefix_of

    by_path: dict[str, str] = {}
    for name in given:
        found = [name]
        if Path(name).is_dir():
            found = pairs_in(name, leave_out=leave_out)
        elif Path(name).is_file() and not name.endswith((".bin", ".idx")):
            # Where a shell fills in ``data/*``, what lies beside the pairs comes along.
            continue
        for prefix in map(prefix_of, found):
            # ``data/*`` names a pair by both of its files.
            by_path.setdefault(os.path.realpath(prefix), prefix)
    if not by_path:
        raise ConfigError(f"{' '.join(given)[:200]}: no pair among these")
    return list(by_path.values())
