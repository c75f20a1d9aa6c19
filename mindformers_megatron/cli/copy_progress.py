"""How far a copy has come, on stderr: a bar on a terminal, plain lines elsewhere. Short copies show nothing there."""

import sys
import time
from types import TracebackType
from typing import Any

_SECONDS_BETWEEN_LINES = 10.0


class CopyProgress:
    """Shows MB/s and the time left; call it with the bytes copied since the last call.

    Args:
        verb: what is being done.
        total: bytes there are to copy.
    """

    def __init__(self, verb: str, total: int) -> None:
        self._verb = verb
        self._total = total
        self._done = 0
        self._begun = self._last_line = time.monotonic()
        self._bar: Any = None
        self._terminal = sys.stderr.isatty()

    def __call__(self, count: int) -> None:
        """Takes in what has been copied."""
        self._done += count
        if self._terminal:
            if self._bar is None:
                from tqdm import tqdm

                self._bar = tqdm(total=self._total, unit="B", unit_scale=True, desc=self._verb, file=sys.stderr)
            self._bar.update(count)
        elif time.monotonic() - self._last_line >= _SECONDS_BETWEEN_LINES:
            self._last_line = time.monotonic()
            rate = self._done / (self._last_line - self._begun)
            share = self._done / max(self._total, 1)
            print(
                f"{self._verb}: {self._done / 1e6:,.0f} of {self._total / 1e6:,.0f} MB ({share:.0%}), "
                f"{rate / 1e6:,.0f} MB/s, {(self._total - self._done) / rate:,.0f} s left",
                file=sys.stderr,
                flush=True,
            )

    def __enter__(self) -> "CopyProgress":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.close()
