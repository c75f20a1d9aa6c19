"""What pages are looked at with, and made from."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import browser as chromium
import pytest
from real_corpus import prepare

from mindformers_megatron.cli.main import run


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    driver = chromium.start(tmp_path_factory.mktemp("profile"))
    yield driver
    driver.quit()


@pytest.fixture(scope="session")
def corpus(browser: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with ``run.yaml`` and all that a real preparation leaves."""
    folder = tmp_path_factory.mktemp("corpus")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        prepare(folder)
    return folder


@pytest.fixture(scope="session")
def real(corpus: Path) -> str:
    """The address of its report."""
    page = corpus / "report.html"
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(corpus)
        assert run(["report", "run.yaml", "--tokenizer", "tokenizer", "-o", str(page)]) == 0
    return page.as_uri()
