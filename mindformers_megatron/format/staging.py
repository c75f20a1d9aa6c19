"""A pair that is being written: two temporary files and the order in which they become readable."""

from pathlib import Path

from mindformers_megatron.format.atomic import StagedFile, sync_folder
from mindformers_megatron.format.paths import bin_path, docs_path, idx_path, metadata_path


class StagedPair:
    """The files of a pair under temporary names. One process at a time may hold those of a prefix.

    Args:
        prefix: path of the pair without suffix.

    Raises:
        ConfigError: the files cannot be created, or another process is writing this pair.
    """

    def __init__(self, prefix: str) -> None:
        # The index first: it is renamed last, so that its lock covers the whole of publishing.
        self.idx = StagedFile(idx_path(prefix), exclusive=True)
        try:
            self.bin = StagedFile(bin_path(prefix), exclusive=True)
        except BaseException:
            self.idx.discard()
            raise
        self._companions = {path: _identity(path) for path in (metadata_path(prefix), docs_path(prefix))}

    def publish(self) -> None:
        """Makes the pair readable; a crash in between leaves the old pair, no pair or the new one, never a mixture."""
        self.bin.sync()
        self.idx.sync()
        # What describes the old pair goes with it, unless it was written after this one was begun.
        for path, identity in self._companions.items():
            if identity is not None and _identity(path) == identity:
                path.unlink()
        self.idx.path.unlink(missing_ok=True)
        sync_folder(self.idx.path.parent)
        self.bin.rename()
        sync_folder(self.idx.path.parent)
        self.idx.rename()
        sync_folder(self.idx.path.parent)

    def discard(self) -> None:
        """Removes the temporary files; what was published stays."""
        self.bin.discard()
        self.idx.discard()


def _identity(path: Path) -> tuple[int, int, int] | None:
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns
