"""A log of JSON lines that outlives its process: whole lines only, whenever that is killed."""

import json
import os
from pathlib import Path
from typing import Any

_BLOCK_BYTES = 1 << 16


class JsonLines:
    """Appends records to a file, a line each; each is handed to the system before ``write`` returns."""

    def __init__(self, path: str | Path) -> None:
        """Opens nothing yet."""
        self.path = Path(path)

    def open(self) -> None:
        """Makes the folder, and removes the one unfinished line that a killed process may have left."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        if self.path.exists():
            os.truncate(self.path, _end_of_last_line(self.path))

    def write(self, record: dict[str, Any]) -> None:
        """Appends a line."""
        with self.path.open("ab") as file:
            file.write(json.dumps(record, ensure_ascii=False).encode() + b"\n")


def _end_of_last_line(path: Path) -> int:
    with path.open("rb") as file:
        end = file.seek(0, os.SEEK_END)
        while end:
            start = max(end - _BLOCK_BYTES, 0)
            file.seek(start)
            place = file.read(end - start).rfind(b"\n")
            if place >= 0:
                return start + place + 1
            end = start
    return 0
