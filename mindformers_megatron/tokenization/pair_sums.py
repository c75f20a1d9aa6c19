"""Checksums of a pair, taken beside its writing."""

import hashlib
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from numpy.typing import NDArray

from mindformers_megatron.format.hashing import Hashes, hash_file

# Updates that may wait, with the memory of their tokens.
MOST_WAITING = 2


class PairSums:
    """SHA-256, and MD5 if asked for, of a pair while it is written.

    A thread for each: one core takes half a second for a gigabyte of SHA-256 and more than one for MD5, which is longer
    than all others together take to encode it.

    Args:
        md5: take MD5 too, for those who compare with ``md5sum``.
    """

    def __init__(self, *, md5: bool) -> None:
        self._md5 = md5
        self._hashes: dict[str, Any] = {"sha256": hashlib.sha256()}
        if md5:
            self._hashes["md5"] = hashlib.md5(usedforsecurity=False)
        self._threads = {name: ThreadPoolExecutor(1, f"mfm-{name}") for name in self._hashes}
        self._waiting: deque[list[Future[None]]] = deque()

    def update(self, tokens: Sequence[NDArray[Any]]) -> None:
        """Takes in what is appended to the ``.bin``, which must not change any more."""
        if len(self._waiting) == MOST_WAITING:
            self._wait()
        self._waiting.append(
            [self._threads[name].submit(_update, hash_, tokens) for name, hash_ in self._hashes.items()]
        )

    def finish(self, index: int) -> dict[str, str | None]:
        """The checksums, by their names in ``WrittenPair``.

        Args:
            index: descriptor of the ``.idx``, which is complete.
        """
        while self._waiting:
            self._wait()
        of_index = Hashes(sha256=True, md5=self._md5)
        hash_file(index, of_index)
        digests = {f"bin_{name}": hash_.hexdigest() for name, hash_ in self._hashes.items()}
        return {"bin_md5": None} | digests | {"idx_sha256": of_index.sha256, "idx_md5": of_index.md5}

    def close(self) -> None:
        """Ends the threads."""
        for threads in self._threads.values():
            threads.shutdown(cancel_futures=True)

    def _wait(self) -> None:
        for future in self._waiting.popleft():
            future.result()


def _update(hash_: Any, tokens: Sequence[NDArray[Any]]) -> None:
    for array in tokens:
        hash_.update(array)
