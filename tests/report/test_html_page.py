"""The page of ``mfm report``: complete in both languages, closed in itself, and deaf to what the texts in it say."""

import base64
import hashlib
import json
import re
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path

import pytest
from report_pages import HOSTILE, TOKENIZER, hostile_preparation, hostile_run

from mindformers_megatron.cli.main import run
from mindformers_megatron.report.html.page import script_json
from mindformers_megatron.report.html.words import WORDS, say

HTML = Path(__file__).parents[2] / "mindformers_megatron" / "report" / "html"
VOID = {"meta", "input"}


class Page(HTMLParser):
    """The elements of a page, and the texts that stand in each kind."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: dict[str, list[str]] = {}
        self.open: list[str] = []
        self.source = path.read_bytes().decode()
        self.feed(self.source)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag, (tag, self.getpos())

    def handle_data(self, data: str) -> None:
        self.texts.setdefault(self.open[-1] if self.open else "", []).append(data)

    def of(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Page:
    """A page that has every section, all of them full of hostile texts."""
    folder = tmp_path_factory.mktemp("hostile")
    hostile_preparation(folder)
    target = hostile_run(folder)
    output = folder / "report.html"
    assert run(["report", str(target), "--tokenizer", str(TOKENIZER), "-o", str(output)]) == 0
    return Page(output)


def test_all_that_there_is_to_see_has_its_section(page: Page) -> None:
    sections = [attributes["id"] for attributes in page.of("section")]
    assert sections == [
        "findings", "mix", "corpora", "funnel", "drops", "lengths", "languages", "duplicates", "contamination",
        "samples", "documents",
    ]  # fmt: skip
    links = [attributes["href"] for attributes in page.of("a")]
    assert {f"#{section}" for section in sections} <= set(links)


def test_no_text_of_a_corpus_becomes_markup(page: Page) -> None:
    kinds = Counter(tag for tag, _ in page.elements)
    assert kinds["script"] == 2
    assert kinds["style"] == 1
    assert not {"img", "iframe", "object", "embed", "base", "link", "b2"} & set(kinds)
    for tag, attributes in page.elements:
        for name, value in attributes.items():
            assert not name.startswith("on"), (tag, name)
            assert name not in ("style", "src", "srcdoc", "formaction"), (tag, name)
            assert "pwned" not in (value or "")


def test_hostile_texts_are_shown_as_they_are(page: Page) -> None:
    shown = "".join(text for tag, texts in page.texts.items() if tag not in ("script", "style") for text in texts)
    for text in HOSTILE[:9]:
        assert text in shown


def test_the_data_cannot_end_their_element_and_are_what_was_put_in(page: Page) -> None:
    (data,) = (text for text in page.texts["script"] if text.startswith('{"samples"'))
    assert not set("<>&\u2028\u2029") & set(data)
    values = json.loads(data)
    ids = {document["id"] for document in values["documents"]}
    assert any(HOSTILE[0][:40] in name for name in ids)
    assert json.loads(script_json(list(HOSTILE))) == list(HOSTILE)


def test_the_page_asks_for_nothing_and_runs_only_its_own_script(page: Page) -> None:
    assert not re.findall(r"""(?:href|src|action)=["']?(?:https?:)?//""", page.source)
    (policy,) = (one["content"] for one in page.of("meta") if one.get("http-equiv") == "Content-Security-Policy")
    assert policy is not None
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    assert rules["default-src"] == rules["connect-src"] == rules["base-uri"] == rules["form-action"] == "'none'"
    (style,) = page.texts["style"]
    (script,) = (text for text in page.texts["script"] if not text.startswith('{"samples"'))
    for rule, text in (("style-src", style), ("script-src", script)):
        assert rules[rule] == f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def test_every_word_of_the_page_stands_in_both_languages(page: Page) -> None:
    languages = Counter(attributes["lang"] for attributes in page.of("span") if "lang" in attributes)
    assert languages["en"] == languages["zh-CN"] > 100
    # What stands outside of them is a name, a number, or a text of the corpus.
    for tag in ("p", "h1", "h2", "th", "button", "label", "summary", "li", "a"):
        for text in page.texts.get(tag, []):
            assert not re.search(r"[A-Za-z]{3}", text), (tag, text)


@pytest.mark.parametrize("key", WORDS)
def test_both_languages_say_the_same_numbers(key: str) -> None:
    english, chinese = WORDS[key]
    assert set(re.findall(r"{\w+}", english)) == set(re.findall(r"{\w+}", chinese))
    assert english
    assert chinese


def test_no_words_are_left_over_or_missing() -> None:
    code = "\n".join(path.read_text() for path in [*HTML.rglob("*.j2"), *HTML.parent.glob("findings.py")])
    script = (HTML / "static" / "page.js").read_text()
    sections = re.findall(r'append\("(\w+)"\)', code)
    used = {*re.findall(r'"((?:\w+\.)?\w+)"', code), *sections}
    used |= {f"js.{key}" for key in re.findall(r'say\([^()]*?"(\w+)"', script)}
    used |= {f"js.{key}" for key in re.findall(r'[?:] "(\w+)"', script)}
    assert set(WORDS) <= used
    keys = set(re.findall(r'say\("([\w.]+)"', code))
    keys |= {f"js.{key}" for key in re.findall(r'say\("(\w+)"', script)}
    assert keys <= set(WORDS)


def test_words_are_escaped_where_they_are_filled_in() -> None:
    assert "<b>" not in say("find.unreached", name="<b>")
    assert "&lt;b&gt;" in say("find.unreached", name="<b>")


def test_every_chart_has_its_numbers_in_text(page: Page) -> None:
    assert all(attributes.get("aria-hidden") == "true" for attributes in page.of("svg"))
    # A bar stands in a row of a table, or in a summary; beside it, its number.
    rows = re.findall(r"<(tr|summary)\b(.*?)</\1>", page.source, re.DOTALL)
    charted = [row for _, row in rows if "<svg" in row]
    assert len(charted) == page.source.count('<svg class="bar"')
    assert all(re.search(r'class="number[^"]*">[^<]*\d', row) for row in charted)
    # A line stands in a figure; its numbers are the table that follows all of them.
    behind = page.source.split('<svg class="lines"')[-1]
    assert behind.index("<table>") < behind.index("</section>")


def test_colours_can_be_read() -> None:
    style = (HTML / "static" / "page.css").read_text()
    themes = re.findall(r"color-scheme: (?:light|dark);(.*?)}", style, re.DOTALL)
    assert len(themes) == 3
    assert re.sub(r"\s+", " ", themes[1]).strip() == re.sub(r"\s+", " ", themes[2]).strip()
    for theme in themes:
        colours = dict(re.findall(r"--([\w-]+): (#\w+)", theme))
        pairs = [("text", ground) for ground in ("ground", "raised", "mark", "warn-ground", "d0", "d1", "d2", "d3")]
        pairs += [
            ("quiet", "ground"),
            ("quiet", "raised"),
            ("accent", "ground"),
            ("warn", "ground"),
            ("warn", "warn-ground"),
        ]
        for front, back in pairs:
            assert contrast(colours[front], colours[back]) >= 4.5, (front, back)


def contrast(one: str, other: str) -> float:
    """The ratio of luminances, as WCAG 2.1 defines it."""
    lights = []
    for colour in (one, other):
        digits = colour[1:] if len(colour) == 7 else "".join(2 * digit for digit in colour[1:])
        parts = [int(digits[place : place + 2], 16) / 255 for place in (0, 2, 4)]
        linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        lights.append(0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2])
    return (max(lights) + 0.05) / (min(lights) + 0.05)
