"""The pictures of the guides: of the demo, of the demo recipe, and of a preparation that finds much.

``make pictures`` draws them anew; otherwise they go to a temporary folder, and only have to be sound and small.
"""

import io
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import browser as chromium
import pytest

pytestmark = pytest.mark.browser

ROOT = Path(__file__).parents[2]
IMAGES = ROOT / "docs" / "images"
# Set to draw the guides' pictures anew.
DRAW = "MFM_DRAW_PICTURES"
# The demo is killed behind this step, and does it again when it goes on.
STEP = 37


def mfm(*words: str) -> list[str]:
    """A command of the program."""
    return [sys.executable, "-m", "mindformers_megatron.cli", *words]


def carry_out(folder: Path, *words: str) -> None:
    done = subprocess.run(mfm(*words), cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="session")
def demo(browser: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder in which somebody has run the demo."""
    folder = tmp_path_factory.mktemp("demo")
    carry_out(folder, "demo")
    carry_out(folder, "report", "demo/interrupted/train.yaml", "--tokenizer", "demo/tokenizer")
    return folder


@pytest.fixture(scope="session")
def recipe(browser: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder in which somebody has carried out the demo recipe."""
    folder = tmp_path_factory.mktemp("recipe")
    (folder / "configs").symlink_to(ROOT / "configs")
    carry_out(folder, "prepare", "configs/recipes/demo.yaml")
    carry_out(folder, "report", "configs/recipes/demo.yaml", "--tokenizer", "demo-corpus/tokenizer")
    return folder


@contextmanager
def served(folder: Path, *words: str) -> Iterator[str]:
    """The address of ``mfm serve``, while it runs."""
    command = mfm("serve", *words, "--port", "0")
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as server:
        assert server.stdout is not None
        try:
            yield server.stdout.readline().strip()
        finally:
            server.terminate()


def photograph(browser: Any, name: str, folder: Path, section: str | None = None) -> None:
    """Looks at what the browser shows, checks it, and keeps it as ``<name>.png``."""
    image = pytest.importorskip("PIL.Image", reason="Pillow is not installed")
    # What has been scrolled under the bar at the top does not lie on it.
    browser.execute_script("scrollTo(0, 0)")
    assert chromium.overflowing(browser) == []
    assert chromium.overlapping(browser) == []
    assert chromium.complaints(browser) == []
    browser.execute_script(
        "document.documentElement.style.scrollbarWidth = 'none';"
        "if (arguments[0]) document.getElementById(arguments[0]).scrollIntoView(); else scrollTo(0, 0)",
        section,
    )
    browser.execute_async_script("requestAnimationFrame(() => requestAnimationFrame(arguments[0]))")
    picture = image.open(io.BytesIO(browser.get_screenshot_as_png())).convert("RGB").quantize(128, dither=0)
    folder = IMAGES if os.environ.get(DRAW) else folder
    folder.mkdir(exist_ok=True)
    picture.save(folder / f"{name}.png", optimize=True)
    assert (folder / f"{name}.png").stat().st_size < 100_000


@pytest.mark.parametrize(
    ("name", "section", "height", "dark"),
    [("report-samples", "samples", 760, False), ("report-duplicates", "duplicates", 620, True)],
)
def test_of_a_preparation_that_finds_much(
    browser: Any, real: str, name: str, section: str, height: int, dark: bool, tmp_path: Path
) -> None:
    chromium.show(browser, real, height=height, dark=dark)
    photograph(browser, name, tmp_path, section)


@pytest.mark.slow
@pytest.mark.train
def test_of_the_report_on_the_demo(browser: Any, demo: Path, tmp_path: Path) -> None:
    chromium.show(browser, (demo / "report.html").as_uri(), height=960)
    photograph(browser, "report", tmp_path)


@pytest.mark.slow
def test_of_the_report_on_the_demo_recipe(browser: Any, recipe: Path, tmp_path: Path) -> None:
    address = (recipe / "report.html").as_uri()
    chromium.show(browser, address, height=860)
    photograph(browser, "report-recipe", tmp_path, "funnel")
    chromium.show(browser, address, width=390, height=844, dark=True, chinese=True)
    photograph(browser, "report-phone", tmp_path)


@pytest.mark.slow
@pytest.mark.train
def test_of_what_a_step_and_a_document_of_the_demo_are_traced_to(browser: Any, demo: Path, tmp_path: Path) -> None:
    with served(demo, "demo/interrupted/train.yaml", "--tokenizer", "demo/tokenizer") as address:
        chromium.show(browser, address, height=880)
        look_up(browser, "step", str(STEP))
        pressed = "#look-up [aria-pressed=true]"
        chromium.wait(browser, lambda: browser.find_elements("css selector", pressed))
        assert f"step {STEP}" in browser.find_element("id", "sample-shown").text
        assert not browser.find_elements("css selector", "#sample-list [aria-pressed=true]")
        photograph(browser, "trace", tmp_path, "samples")

        chromium.show(browser, address, width=390, height=844, dark=True, chinese=True)
        look_up(browser, "document", document_of_step(demo))
        chromium.wait(browser, lambda: browser.find_elements("css selector", "#look-up .seen button"))
        browser.execute_script("document.querySelector('#look-up .seen button').click()")
        chromium.wait(browser, lambda: browser.find_elements("css selector", pressed))
        assert browser.find_element("css selector", "#look-up .seen bdi").text == document_of_step(demo)
        photograph(browser, "trace-phone", tmp_path, "samples")


def document_of_step(folder: Path) -> str:
    """A document that the step was given."""
    command = mfm("trace", "--config", "demo/interrupted/train.yaml", "--step", str(STEP), "--json")
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    sample = json.loads(done.stdout.splitlines()[0])
    return f"{sample['corpus']}:{sample['documents'][0]['document']}"


def look_up(browser: Any, what: str, value: str) -> None:
    browser.find_element("name", what).send_keys(value)
    # Not with the pointer, which would stay and colour what it points at.
    browser.execute_script("document.querySelector('#look-up button').click()")
