"""How far a tokenization has come, on stderr: a bar on a terminal, plain lines elsewhere."""

import sys
import time
from typing import Any

from mindformers_megatron.tokenization.counts import Advance

_SECONDS_BETWEEN_LINES = 10.0


class EncodingProgress:
    """Shows MB/s, tokens/s and the time left. Call it as ``preprocess`` calls its ``on_advance``.

    Args:
        every_documents: write a line each time so many documents are done, not each ten seconds; not for a bar.
    """

    def __init__(self, every_documents: int | None = None) -> None:
        self._every_documents = every_documents
        self._begun = self._last_line = time.monotonic()
        self._bytes = self._documents = self._tokens = self._documents_shown = 0
        self._bar: Any = None
        self._terminal = sys.stderr.isatty()

    def __call__(self, total: int, advance: Advance) -> None:
        """Takes in what has been done of ``total`` bytes."""
        self._bytes += advance.bytes
        self._documents += advance.documents
        self._tokens += advance.tokens
        if self._terminal:
            self._move_bar(total, advance.bytes)
        elif self._line_is_due():
            self._last_line = time.monotonic()
            self._documents_shown = self._documents
            print(self._line(total), file=sys.stderr, flush=True)

    def close(self) -> None:
        """Leaves the terminal as it should be."""
        if self._bar is not None:
            self._bar.close()

    def _move_bar(self, total: int, done: int) -> None:
        if self._bar is None:
            from tqdm import tqdm

            self._bar = tqdm(total=total, unit="B", unit_scale=True, desc="tokenizing", file=sys.stderr)
        self._bar.set_postfix_str(f"{self._tokens_per_second() / 1e6:.2f}M tokens/s", refresh=False)
        self._bar.update(done)

    def _line_is_due(self) -> bool:
        if self._every_documents:
            return self._documents // self._every_documents > self._documents_shown // self._every_documents
        return time.monotonic() - self._last_line >= _SECONDS_BETWEEN_LINES

    def _line(self, total: int) -> str:
        seconds = max(time.monotonic() - self._begun, 1e-3)
        rate = self._bytes / seconds
        left = (total - self._bytes) / rate if rate else float("inf")
        return (
            f"tokenizing: {self._documents:,} documents, {self._bytes / 1e6:,.1f} of {total / 1e6:,.1f} MB "
            f"({100 * self._bytes / max(total, 1):.0f} %), {rate / 1e6:.1f} MB/s, "
            f"{self._tokens_per_second() / 1e6:.2f} M tokens/s, {_clock(left)} left"
        )

    def _tokens_per_second(self) -> float:
        return self._tokens / max(time.monotonic() - self._begun, 1e-3)


def _clock(seconds: float) -> str:
    if seconds == float("inf"):
        return "unknown time"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
