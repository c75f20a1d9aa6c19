"""What is written piece by piece, and is there whole or not at all."""

from abc import ABC, abstractmethod
from types import TracebackType
from typing import TypeVar

Self = TypeVar("Self", bound="Staged")


class Staged(ABC):
    """A context manager that completes what was written, or removes it where the block fails."""

    @abstractmethod
    def close(self) -> None:
        """Completes what was written and gives it its name."""

    @abstractmethod
    def abort(self) -> None:
        """Removes what was written; nothing, once it has its name."""

    def __enter__(self: Self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                self.close()
        finally:
            self.abort()
