"""Checksums of a pair, taken beside its writing."""

import hashlib
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any

from numpy.typing import NDArray

from mindformers_megatron.format.paths import idx_path
from mindformers_megatron.format.writer import WrittenPair

_CHUNK_BYTES = 1 << 22


class PairSums:
    """SHA-256, and MD5 if asked for, of a pair while it is written.

    A thread for each: one core takes half a second for a gigabyte of SHA-256 and more than one for MD5, which is longer
    than all others together take to encode it.

    Args:
        md5: take MD5 too, for those who compare with ``md5sum``.
    """

    def __init__(self, *, md5: bool) -> None:
        self._hashes: dict[str, Any] = {"sha256": hashlib.sha256()}
        if md5:
            self._hashes["md5"] = hashlib.md5(usedforsecurity=False)
        self._threads = {name: ThreadPoolExecutor(1, f"mfm-{name}") for name in self._hashes}
        self._last: list[Future[None]] = []

    def update(self, tokens: NDArray[Any]) -> None:
        """Takes in what is appended to the ``.bin``, which must not change any more."""
        if tokens.size:
            self._last = [self._threads[name].submit(hash_.update, tokens) for name, hash_ in self._hashes.items()]

    def of(self, pair: WrittenPair, prefix: str) -> WrittenPair:
        """The pair with its checksums, once it has been written."""
        for future in self._last:
            future.result()
        sums = {f"bin_{name}": hash_.hexdigest() for name, hash_ in self._hashes.items()}
        sums |= {f"idx_{name}": _of_file(name, Path(idx_path(prefix))) for name in self._hashes}
        return replace(pair, **sums)

    def __enter__(self) -> "PairSums":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        with ExitStack() as stack:
            for threads in self._threads.values():
                stack.callback(threads.shutdown, cancel_futures=True)


def _of_file(name: str, path: Path) -> str:
    hash_ = hashlib.new(name, usedforsecurity=False)
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK_BYTES):
            hash_.update(chunk)
    return hash_.hexdigest()
