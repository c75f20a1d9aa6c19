"""A real browser for tests: headless Chromium, which reports what goes wrong in a page."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

# No sandbox, because tests may be run by root in a container; and nothing that talks to anybody.
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--disable-dev-shm-usage", "--lang=en-US",
)  # fmt: skip

# Boxes of visible text, as far as no box around it cuts them off: [[left, top, right, bottom, text, number], …].
_TEXTS = """
const boxes = [];
const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
let number = 0;
for (let node = walker.nextNode(); node; node = walker.nextNode(), number++) {
  const parent = node.parentElement;
  if (!node.textContent.trim() || parent.closest("script, style, .unseen, .skip")) continue;
  if (!parent.checkVisibility({visibilityProperty: true})) continue;
  const range = document.createRange();
  range.selectNodeContents(node);
  for (const box of range.getClientRects()) {
    let [left, top, right, bottom] = [box.left, box.top, box.right, box.bottom];
    for (let up = parent; up; up = up.parentElement) {
      const style = getComputedStyle(up);
      if (style.overflowX === "visible" && style.overflowY === "visible") continue;
      if (up === document.documentElement || up === document.body) continue;
      const cut = up.getBoundingClientRect();
      [left, top] = [Math.max(left, cut.left), Math.max(top, cut.top)];
      [right, bottom] = [Math.min(right, cut.right), Math.min(bottom, cut.bottom)];
    }
    const text = node.textContent.trim().slice(0, 40);
    if (right - left > 1 && bottom - top > 1) boxes.push([left, top, right, bottom, text, number]);
  }
}
return boxes;
"""
# Boxes of lines may touch; text that does is not on top of other text.
_TOUCH = 4.0


def start(profile: Path) -> Any:
    """Starts Chromium with an empty profile; skips the test where there is none."""
    webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed")
    chromium = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    driver = shutil.which("chromedriver")
    if chromium is None or driver is None:
        pytest.skip("no Chromium with a chromedriver is installed")
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for flag in (*FLAGS, f"--user-data-dir={profile}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    service = webdriver.ChromeService(driver, env={**os.environ, "NO_PROXY": "127.0.0.1,localhost"})
    return webdriver.Chrome(options=options, service=service)


def show(
    browser: Any, url: str, *, width: int = 1280, height: int = 1000, dark: bool = False, chinese: bool = False
) -> None:
    """Opens a page under a size, a theme and a language, none of which it remembers from before."""
    resize(browser, width, height)
    theme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [theme]})
    browser.get(url)
    browser.execute_script("localStorage.clear()")
    browser.refresh()
    if chinese:
        browser.find_element("id", "language").click()


def resize(browser: Any, width: int, height: int) -> None:
    """Gives the page a size."""
    size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)


def complaints(browser: Any) -> list[str]:
    """What the browser said about the page since it was asked last."""
    return [entry["message"] for entry in browser.get_log("browser")]


def overflowing(browser: Any) -> list[Any]:
    """Texts that reach beyond the page, and the page's own width if it is wider than the window."""
    width, wide = browser.execute_script("return [innerWidth, document.documentElement.scrollWidth]")
    beyond = [box for box in browser.execute_script(_TEXTS) if box[0] < -0.5 or box[2] > width + 0.5]
    return beyond if wide <= width else [*beyond, f"{wide} of {width} pixels"]


def overlapping(browser: Any) -> list[Any]:
    """Pairs of texts that lie on top of each other."""
    boxes = sorted(browser.execute_script(_TEXTS), key=lambda box: box[1])
    found, near = [], []
    for box in boxes:
        near = [other for other in near if other[3] > box[1] + _TOUCH]
        found += [
            (other, box)
            for other in near
            # A text that is cut short has a box with and one without the dots.
            if other[5] != box[5]
            and min(other[2], box[2]) - max(other[0], box[0]) > _TOUCH
            and min(other[3], box[3]) - box[1] > _TOUCH
        ]
        near.append(box)
    return found


def wait(browser: Any, condition: Callable[[], bool]) -> None:
    """Waits until something is so; a minute at most."""
    from selenium.webdriver.support.ui import WebDriverWait

    WebDriverWait(browser, 60, poll_frequency=0.05).until(lambda _: condition())
