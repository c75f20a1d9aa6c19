"""Records that are none: where they are, what is wrong with them, and how many may be."""

from dataclasses import asdict, dataclass, field
from typing import Any

from mindformers_megatron.errors import DataError

_RAW_CHARACTERS = 200


@dataclass(frozen=True, slots=True)
class Reject:
    """A record that cannot be read.

    Attributes:
        file: the file, named as it was given.
        line: see ``Origin``.
        byte_offset: see ``Origin``.
        reason: what is wrong with it.
        raw: how it begins, as far as it can be read.
    """

    file: str
    line: int
    byte_offset: int
    reason: str
    raw: str

    def __str__(self) -> str:
        place = f" (byte {self.byte_offset:,})" if self.byte_offset > 0 else ""
        return f"{self.file}, line {self.line:,}{place}: {self.reason}"

    def to_json(self) -> dict[str, Any]:
        """JSON values, as they stand in a file of rejects."""
        return asdict(self)


def excerpt(raw: bytes) -> str:
    """How a record begins, for people to look at."""
    return raw[: 4 * _RAW_CHARACTERS].decode(errors="replace").rstrip("\r\n")[:_RAW_CHARACTERS]


@dataclass(slots=True)
class Rejects:
    """Collects what is rejected, up to a number.

    Attributes:
        allowed: how many there may be; 0: the first ends the run; None: any number.
        found: those found so far.
    """

    allowed: int | None = 0
    found: list[Reject] = field(default_factory=list)

    def add(self, reject: Reject) -> None:
        """Takes in a record that cannot be read.

        Raises:
            DataError: it is one too many.
        """
        self.found.append(reject)
        if self.allowed is not None and len(self.found) > self.allowed:
            raise DataError(f"{reject}; {_advice(self.allowed)}")


def _advice(allowed: int) -> str:
    if not allowed:
        return "mend it, or pass --on-error skip to leave such records out"
    return f"--on-error allows {allowed:,} bad records"
