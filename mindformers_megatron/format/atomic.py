"""Files that exist whole or not at all.

A file is written under a temporary name in its own folder, forced to disk, and then renamed. Whoever reads sees the old
content or the new one, and a crash leaves neither a half-written file nor a lost one.
"""

import contextlib
import errno
import fcntl
import os
import re
import secrets
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from mindformers_megatron.errors import ConfigError

_BUFFER_BYTES = 1 << 20
_TEMPORARY = re.compile(r"\.\d+-[0-9a-f]+\.tmp")


class StagedFile:
    """A file that is being written and has not taken its own name yet.

    Args:
        path: the name it takes in the end.
        exclusive: one writer at a time. The temporary name is then ``<path>.tmp`` and locked, so that a second writer
            is refused while the first one lives, and what a killed one left is written over instead of piling up.
            Without it every writer has a name of its own, and the last to commit wins.

    Raises:
        ConfigError: the file cannot be created, or another process is writing it.
    """

    def __init__(self, path: Path, *, exclusive: bool = False) -> None:
        self.path = path
        self.temporary = path.with_name(f"{path.name}.tmp") if exclusive else temporary_path(path)
        try:
            descriptor = _open_locked(self.temporary) if exclusive else _open_new(self.temporary)
        except BlockingIOError:
            raise ConfigError(
                f"{path}: another process is writing it (it holds {self.temporary}); let it end first"
            ) from None
        except OSError as error:
            raise ConfigError(f"{path}: cannot be written in {path.parent}: {error.strerror}") from None
        self.file: BinaryIO = os.fdopen(descriptor, "w+b", buffering=_BUFFER_BYTES)

    def take_over(self, path: Path) -> None:
        """Makes another file, of the same file system, what is being written; it loses its own name.

        Raises:
            OSError: it cannot be renamed.
        """
        file = path.open("r+b", buffering=_BUFFER_BYTES)
        try:
            # Locked before it has the temporary name, by which another writer would find it.
            _lock(file.fileno())
            path.replace(self.temporary)
        except BaseException:
            file.close()
            raise
        self.file.close()
        self.file = file

    def sync(self) -> None:
        """Forces what was written so far to the disk."""
        self.file.flush()
        os.fsync(self.file.fileno())

    def rename(self) -> None:
        """Gives the file its name and closes it. Call ``sync`` before, and ``sync_folder`` after."""
        # Renamed while the lock is held: a waiting writer must not take the temporary name for its own before it is
        # gone.
        self.temporary.replace(self.path)
        self.file.close()

    def commit(self) -> None:
        """``sync``, ``rename`` and ``sync_folder`` in one."""
        self.sync()
        self.rename()
        sync_folder(self.path.parent)

    def discard(self) -> None:
        """Removes the temporary file; does nothing after ``rename``."""
        if self.file.closed:
            return
        self.temporary.unlink(missing_ok=True)
        # Closing flushes; what cannot be flushed to a full disk was to be thrown away anyhow.
        with contextlib.suppress(OSError):
            self.file.close()


@contextlib.contextmanager
def open_atomically(path: Path, *, exclusive: bool = False) -> Iterator[BinaryIO]:
    """A stream whose content becomes ``path`` when the block ends, and nothing if it ends in an exception.

    Args:
        path: the file to be.
        exclusive: see ``StagedFile``.
    """
    staged = StagedFile(path, exclusive=exclusive)
    try:
        yield staged.file
        staged.commit()
    finally:
        staged.discard()


def write_atomically(path: Path, data: bytes) -> None:
    """Replaces the content of ``path`` by ``data``, whole or not at all."""
    with open_atomically(path) as stream:
        stream.write(data)


def temporary_path(path: Path) -> Path:
    """A name beside ``path`` that nobody else takes, for what is to become it."""
    return path.with_name(f"{path.name}.{os.getpid()}-{secrets.token_hex(4)}.tmp")


def remove_left_over(folder: Path) -> None:
    """Removes what writers that were killed have left below a folder, in which nobody else writes now."""
    for path in list(folder.rglob("*.tmp")):
        if not _TEMPORARY.search(path.name):
            continue
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)


def sync_folder(folder: Path) -> None:
    """Forces renames and removals in ``folder`` to the disk."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        # Some network file systems cannot sync a folder; their renames are as durable as they make them.
        if error.errno not in (errno.EINVAL, errno.ENOTSUP, errno.EROFS):
            raise
    finally:
        os.close(descriptor)


def _open_new(path: Path) -> int:
    # Not tempfile.mkstemp: its mode 0600 would outlive the rename and shut out the group.
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)


def _open_locked(path: Path) -> int:
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            _lock(descriptor)
            # Between opening and locking, the former holder may have renamed this very file to its final name.
            if _is_same_file(descriptor, path):
                os.ftruncate(descriptor, 0)
                return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)


def _lock(descriptor: int) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        # A file system without locks (some Lustre and FUSE mounts) gives no protection, but must still be writable.
        if error.errno not in (errno.ENOSYS, errno.ENOTSUP, errno.ENOLCK, errno.EINVAL):
            raise


def _is_same_file(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False
