"""How far the stages of a recipe have come, on stderr: a bar on a terminal, plain lines elsewhere."""

import sys
import time
from typing import Any

_SECONDS_BETWEEN_LINES = 10.0


class StageProgress:
    """Shows what is being done, how much of it is done, and the rate. See ``corpus.prepare.job_runner.Progress``."""

    def __init__(self) -> None:
        self._terminal = sys.stderr.isatty()
        self._bar: Any = None
        self._name = ""
        self._total = self._done = 0
        self._begun = self._last_line = time.monotonic()

    def begin(self, stage: str, what: str, total: int) -> None:
        """A piece of work begins."""
        self._name = f"{stage}: {what}"
        self._total, self._done = total, 0
        self._begun = self._last_line = time.monotonic()
        if self._terminal:
            from tqdm import tqdm

            self._bar = tqdm(total=total or None, unit="B", unit_scale=True, desc=self._name, file=sys.stderr)

    def advance(self, size: int) -> None:
        """So many bytes of it are done."""
        self._done += size
        if self._bar is not None:
            self._bar.update(size)
        elif time.monotonic() - self._last_line >= _SECONDS_BETWEEN_LINES:
            self._last_line = time.monotonic()
            self._print(f"{self._done / 1e6:,.1f} of {self._total / 1e6:,.1f} MB")

    def end(self) -> None:
        """It is done."""
        if self._bar is not None:
            self._bar.close()
            self._bar = None
        elif time.monotonic() - self._begun >= 1.0:
            self._print(f"{self._total / 1e6:,.1f} MB" if self._total else "done")

    def close(self) -> None:
        """Leaves the terminal as it should be."""
        if self._bar is not None:
            self._bar.close()

    def _print(self, what: str) -> None:
        seconds = max(time.monotonic() - self._begun, 1e-3)
        rate = f", {self._done / 1e6 / seconds:,.1f} MB/s" if self._total else ""
        print(f"{self._name}: {what} in {seconds:,.1f} s{rate}", file=sys.stderr, flush=True)
