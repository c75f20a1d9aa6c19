"""The page in a real browser: nothing overflows, overlaps, complains, runs what a text says, or stutters."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import browser as chromium
import pytest
from report_pages import TOKENIZER, hostile_preparation, hostile_run

from mindformers_megatron.cli.main import run
from mindformers_megatron.report.html.page import Contents, render_page

pytestmark = pytest.mark.browser

DOCUMENTS = 10_000


@pytest.fixture(scope="module")
def hostile(browser: Any, tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("hostile")
    hostile_preparation(folder)
    page = folder / "report.html"
    assert run(["report", str(hostile_run(folder)), "--tokenizer", str(TOKENIZER), "-o", str(page)]) == 0
    return page.as_uri()


@pytest.fixture(scope="module")
def many(browser: Any, tmp_path_factory: pytest.TempPathFactory) -> str:
    documents = [
        {"corpus": "wiki", "number": number, "tokens": 500, "text": f"Text {number} " + "word " * 40,
         "id": f"id-{number}", "source": "wiki", "file": "raw/wiki.jsonl", "line": number + 1}
        for number in range(DOCUMENTS)
    ]  # fmt: skip
    page = tmp_path_factory.mktemp("many") / "report.html"
    page.write_bytes(render_page(Contents(name="many", documents=documents)))
    return page.as_uri()


@pytest.mark.parametrize("chinese", [False, True], ids=["en", "zh"])
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("which", ["real", "hostile"])
def test_nothing_overflows_or_overlaps(
    browser: Any, which: str, width: int, dark: bool, chinese: bool, request: pytest.FixtureRequest
) -> None:
    chromium.show(browser, request.getfixturevalue(which), width=width, dark=dark, chinese=chinese)
    for are_open in (False, True):
        browser.execute_script(
            "document.querySelectorAll('details').forEach((one) => { one.open = arguments[0]; })", are_open
        )
        assert chromium.overflowing(browser) == []
        assert chromium.overlapping(browser) == []
    assert chromium.complaints(browser) == []


def test_hostile_texts_do_not_run(browser: Any, hostile: str) -> None:
    chromium.show(browser, hostile)
    browser.execute_script("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    for list_ in ("sample-list", "document-list"):
        for row in browser.find_elements("css selector", f"#{list_} .row")[:12]:
            browser.execute_script("arguments[0].click()", row)
    browser.execute_script(
        "document.querySelectorAll('main *').forEach((one) => {"
        " for (const kind of ['mouseover', 'focus', 'load', 'error']) one.dispatchEvent(new Event(kind)); })"
    )
    assert browser.execute_script("return [window.pwned, document.scripts.length, document.title]") == [
        None, 2, "run.yaml · Data report · 数据报告",
    ]  # fmt: skip
    assert browser.find_elements("css selector", "iframe, img, [onerror], [onload], [style*=fixed]") == []
    assert browser.find_element("tag name", "main").is_displayed()
    assert chromium.complaints(browser) == []


def test_a_script_that_got_in_all_the_same_would_not_run(browser: Any, hostile: str) -> None:
    chromium.show(browser, hostile)
    browser.execute_script(
        "const one = document.createElement('script'); one.textContent = 'window.pwned = 1'; document.body.append(one);"
        "document.body.insertAdjacentHTML('beforeend', '<img src=x onerror=\"window.pwned = 2\">');"
        "fetch('http://127.0.0.1:9/').catch(() => {});"
    )
    assert browser.execute_script("return window.pwned") is None
    refused = chromium.complaints(browser)
    assert len([one for one in refused if "Content Security Policy" in one]) >= 3


def test_ten_thousand_documents_are_a_few_rows_wherever_one_looks(browser: Any, many: str) -> None:
    chromium.show(browser, many)
    measured = browser.execute_async_script("""
        const done = arguments[0], list = document.getElementById("document-list");
        const frames = [], rows = [];
        let last = performance.now(), place = 0;
        function frame(now) {
          frames.push(now - last);
          rows.push(list.querySelectorAll(".row").length);
          last = now;
          place += 1;
          if (place > 120) return done([frames, rows, list.scrollTop, list.scrollHeight]);
          list.scrollTop = place / 120 * (list.scrollHeight - list.clientHeight);
          requestAnimationFrame(frame);
        }
        requestAnimationFrame(frame);
    """)
    frames, rows, reached, height = measured
    assert max(rows) < 40
    assert height == DOCUMENTS * 50
    assert reached > 0.98 * height - 600
    # For those who run it to know; how fast a machine is, is not this test's to judge.
    print(f"frames of {sorted(frames)[len(frames) // 2]:.1f} ms in the middle, {max(frames):.1f} ms at most")
    last = browser.execute_async_script(
        "const done = arguments[0]; requestAnimationFrame(() => requestAnimationFrame(() => done("
        "[...document.querySelectorAll('#document-list .row')].map((row) => row.textContent).filter("
        "(text) => text.includes('id-9999')).length)))"
    )
    assert last == 1


def test_documents_are_found_by_their_text_and_by_keys(browser: Any, many: str) -> None:
    chromium.show(browser, many)
    browser.find_element("id", "document-filter").send_keys("TEXT 7777")
    chromium.wait(browser, lambda: "1 of 10,000" in browser.find_element("id", "document-count").text)
    assert [row.text.split("\n")[0] for row in browser.find_elements("css selector", "#document-list .row")] == [
        "wiki · id-7777"
    ]
    browser.find_element("id", "document-list").send_keys("\ue015")  # arrow down
    assert "wiki:7777" in browser.find_element("id", "document-shown").text


def test_a_sample_shows_its_documents_its_masks_and_where_they_come_from(browser: Any, real: str) -> None:
    chromium.show(browser, real)
    shown = browser.find_element("id", "sample-shown")
    parts = shown.find_elements("css selector", ".parts li")
    assert len(parts) > 1
    assert len(shown.find_elements("css selector", ".start")) == len(parts) - 1
    assert len(shown.find_elements("css selector", ".reset")) == len(parts) - 1
    assert len(shown.find_elements("css selector", ".off")) >= len(parts) - 1
    links = [link.get_attribute("href") for link in shown.find_elements("css selector", ".parts a")]
    assert len(links) == len(parts)
    assert all(link.startswith("file:///") and Path(link.removeprefix("file://")).is_file() for link in links)
    token = shown.find_element("css selector", ".off")
    browser.execute_script("arguments[0].dispatchEvent(new PointerEvent('pointerover', {bubbles: true}))", token)
    assert "loss masked" in shown.text


def test_the_reader_chooses_language_and_theme_and_is_remembered(browser: Any, real: str) -> None:
    chromium.show(browser, real)
    ground = "return getComputedStyle(document.body).backgroundColor"
    light = browser.execute_script(ground)
    for switch in ("theme", "language"):
        browser.find_element("id", switch).click()
    browser.refresh()
    assert browser.execute_script(ground) != light
    assert browser.find_element("css selector", "h1").text.startswith("数据报告")
    assert "Findings" not in browser.find_element("tag name", "body").text


def test_a_served_page_looks_things_up(browser: Any, corpus: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "mindformers_megatron.cli",
        "serve",
        "run.yaml",
        "--tokenizer",
        "tokenizer",
        "--port",
        "0",
    ]
    with subprocess.Popen(command, cwd=corpus, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as server:
        assert server.stdout is not None
        chromium.show(browser, server.stdout.readline().strip())
        browser.find_element("name", "step").send_keys("100")
        browser.find_element("css selector", "#look-up button").click()
        shown = browser.find_element("id", "sample-shown")
        chromium.wait(browser, lambda: shown.text.startswith("step 100 · rank 0 · row 0"))
        shown.find_element("css selector", ".parts button").click()
        chromium.wait(browser, lambda: shown.find_elements("css selector", ".parts pre"))
        assert '"text":' in shown.find_element("css selector", ".parts pre").text
        browser.find_element("name", "step").clear()
        browser.find_element("name", "document").send_keys("chinese:1")
        browser.find_element("css selector", "#look-up button").click()
        chromium.wait(browser, lambda: "seen in" in browser.find_element("id", "look-up-status").text)
        browser.find_element("name", "document").send_keys("?")
        browser.find_element("css selector", "#look-up button").click()
        chromium.wait(browser, lambda: "failed" in browser.find_element("id", "look-up-status").text)
        # The refusal is an answer with a status of its own, which the browser mentions.
        assert all("422" in one for one in chromium.complaints(browser))
        server.terminate()
