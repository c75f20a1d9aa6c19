"""Where MindFormers writes, and what its own launcher is given."""

import os
import tempfile
from pathlib import Path

import pytest

# MindFormers opens its log files where this says, as soon as it is imported.
os.environ.setdefault("LOCAL_DEFAULT_PATH", tempfile.mkdtemp(prefix="mindformers-"))


@pytest.fixture(scope="session")
def shim() -> Path:
    """The folder that MindFormers' own launcher is given as its register path."""
    return Path(__file__).parents[2] / "configs" / "register"
