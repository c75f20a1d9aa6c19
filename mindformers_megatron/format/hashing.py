"""Hashes taken while bytes pass by."""

import hashlib
import os

_CHUNK_BYTES = 1 << 22


class Hashes:
    """Running hashes; those not asked for cost nothing and stay None."""

    def __init__(self, *, sha256: bool, md5: bool) -> None:
        self._sha256 = hashlib.sha256() if sha256 else None
        # For telling files apart, as people do with md5sum; not for security (FIPS builds refuse it otherwise).
        self._md5 = hashlib.md5(usedforsecurity=False) if md5 else None

    def __bool__(self) -> bool:
        return self._sha256 is not None or self._md5 is not None

    def update(self, data: bytes | memoryview) -> None:
        """Takes in contiguous bytes."""
        if self._sha256 is not None:
            self._sha256.update(data)
        if self._md5 is not None:
            self._md5.update(data)

    @property
    def sha256(self) -> str | None:
        """Hex digest so far."""
        return self._sha256.hexdigest() if self._sha256 is not None else None

    @property
    def md5(self) -> str | None:
        """Hex digest so far."""
        return self._md5.hexdigest() if self._md5 is not None else None


def hash_file(descriptor: int, hashes: Hashes) -> None:
    """Takes in a whole open file."""
    position = 0
    while hashes and (data := os.pread(descriptor, _CHUNK_BYTES, position)):
        hashes.update(data)
        position += len(data)
