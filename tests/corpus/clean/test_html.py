"""Tags go, text stays, and what is no HTML keeps every character."""

import sysconfig
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mindformers_megatron.corpus.clean.html import main_content
from mindformers_megatron.corpus.clean.html_fragment import is_page, without_tags
from mindformers_megatron.corpus.clean.html_text import text_of_page, texts_of_pages
from tests.corpus.documents import PROSE, apply, unicode_texts

PAGE = f"""<!DOCTYPE html>
<html><head><title>Title</title><style>p {{ color: red }}</style></head>
<body><nav><ul><li><a href="/">Home</a></li><li><a href="/about">About us</a></li></ul></nav>
<div id="content"><h1>On corpora</h1>
<p>{PROSE}</p>
<p>If a &lt; b then <code>vector&lt;string&gt;</code> is <b>not</b> a&nbsp;tag.</p>
<pre class="python">
def f(x):
    if x &lt; 3:

        return [x for _ in range(3)]
</pre>
<table><tr><th>name</th><th>size</th></tr><tr><td>one</td><td>1</td></tr></table>
</div>
<footer><p>Copyright 2024. <a href="/imprint">Imprint</a></p></footer>
<script>if (a < b) {{ document.write("<p>no</p>"); }}</script></body></html>
"""


def test_the_main_content_of_a_page_is_its_text_without_menus() -> None:
    text = main_content(PAGE)
    assert PROSE in text
    assert "If a < b then vector<string> is not a" in text
    assert "    if x < 3:\n\n        return [x for _ in range(3)]" in text
    for boilerplate in ("About us", "Imprint", "color", "document.write", "<p>"):
        assert boilerplate not in text


def test_all_the_text_of_a_page_is_its_lines() -> None:
    assert text_of_page(PAGE) == (
        "Home\nAbout us\n\nOn corpora\n\n" + PROSE + "\n\nIf a < b then vector<string> is not a\u00a0tag.\n\n"
        "def f(x):\n    if x < 3:\n\n        return [x for _ in range(3)]\n\n\n"
        "name\tsize\none\t1\n\nCopyright 2024. Imprint"
    )


@pytest.mark.parametrize(
    ("html", "text"),
    [
        ("", ""),
        ("no tags", "no tags"),
        ("<p>a<p>b", "a\n\nb"),
        ("a<br>b<br/>c", "a\nb\nc"),
        ("<div>a</div><div>b</div>", "a\nb"),
        ("one <b>bold</b>, <i>x</i>y", "one bold, xy"),
        ("<p>wrapped\n   over\tlines</p>", "wrapped over lines"),
        ("<ul>\n <li>a\n <li>b\n</ul>", "a\nb"),
        ("<PRE>\n  x\n\ty</PRE>z", "  x\n\ty\n\nz"),
        ("<pre>    a\n<b>  b</b>\n</pre>", "    a\n  b"),
        ("<table>\n<tr>\n<td>a</td>\n<td>b</td>\n</tr>\n<tr><td>c</td></tr></table>", "a\tb\nc"),
        ("<script>x</script>a<style>y</style><!-- c -->b", "ab"),
        ("<h1>h</h1>t<hr>u", "h\n\nt\n\nu"),
        ("&lt;b&gt; &amp; &#20013;", "<b> & 中"),
        ("form\ffeed", "form feed"),
        ("<blockquote>q</blockquote><figcaption>c</figcaption>", "q\n\nc"),
        ("<a title='<p>'>x</a>", "x"),
        ("<a title='>' href=\"it's > that\">x</a> > y", "x > y"),
        ('<img alt="a > b <c">d', "d"),
        ("<p title = 'a\n>'>b", "b"),
        ("<p class=a'>b'", "b'"),
        ("a < b, a <3, <> and </> c", "a < b, a <3, <> and c"),
        ("<!doctype html><?php x ?>a<!>b<!-->c<!--->d<!-- > --> e", "abcd e"),
        ("a<!-- never ends <p>b", "a"),
        ("a<script>never ends <p>b", "a"),
        ("a<a never='ends <p>b", "a"),
        ("<SCRIPT>if (a<b) '</p>'</Script >c", "c"),
        ("<script>'</scripts>' <!-- </script>c", "c"),
        ("<title>t</title><svg-icon>a</svg-icon><svg><text>b</text></svg>c", "ac"),
        ("<custom-element>a</custom-element><p-x>b</p-x>", "a\n\nb"),
        ("a<b <p>c", "ac"),
        ("<pre>\r\na\r\n  b\x01c</pre>", "a\n  b c"),
        ("&amp;lt; &ampx; &#x4e2d; &unknown; &nbsp&lt", "&lt; &x; 中 &unknown; \u00a0<"),
        ("<p", ""),
        ("a<", "a<"),
    ],
)
def test_tags_become_line_ends_or_nothing(html: str, text: str) -> None:
    assert text_of_page(html) == text


MARKUP = [
    "<p>",
    "</p>",
    "<pre>",
    "</pre>",
    "<td>",
    "<tr>",
    "<table>",
    "<br>",
    "<div>",
    "<x-y>",
    "<",
    ">",
    "</",
    "\f",
    "\t",
    "\n",
    " ",
    "&lt;",
    "汉",
    "a",
    "<!--",
    "-->",
]


@given(st.lists(st.sampled_from(MARKUP), max_size=40))
def test_any_mixture_of_tags_gives_text(parts: list[str]) -> None:
    text = text_of_page("".join(parts))
    assert "\f" not in text
    assert text.count("汉") <= parts.count("汉")
    assert "\n\n\n" not in text or "<pre>" in parts


@given(st.lists(st.lists(st.sampled_from([*MARKUP, "<script>", "'", '"', "=", "<a x='", "&lt", ""])).map("".join)))
def test_the_text_of_a_page_does_not_depend_on_the_pages_beside_it(pages: list[str]) -> None:
    assert texts_of_pages(pages) == [text_of_page(page) for page in pages]


@given(unicode_texts.filter(lambda text: "<" not in text and "&" not in text))
def test_no_character_of_a_text_is_lost(text: str) -> None:
    visible = "".join(text.split()).translate(dict.fromkeys(range(0x20)))
    assert "".join(text_of_page(f"<p>{text}</p>").split()) == visible.replace("\x00", "")


UNTOUCHED = [
    "std::vector<std::string> v; if (a < b && c > d) return map<int, b>();",
    "We say a < b, and c > d. A List<a> is not <b>, and x<y holds.",
    "Include <stdio.h> and <linux/kernel.h>; mail <someone@example.com> for <https://example.com>.",
    "Use `<b>x</b>` for bold.\n\n```html\n<p>hi</p>\n<p>you</p>\n```\n",
    'function A() {\n  return (\n    <div className="x">\n      <p>Hi</p>\n    </div>\n  );\n}\nexport default A;',
    "<config><name>x</name><title>t</title></config>",
    "An example in a document::\n\n    <html><body><p>hi</p></body></html>\n\nand the text goes on.",
    "#include <map>\ntemplate <class T> struct A { T<b> x; };\n",
    "if x <b and c> 3: pass",
]


@pytest.mark.parametrize("text", UNTOUCHED)
def test_what_is_no_html_keeps_every_character(text: str) -> None:
    assert not is_page(text)
    assert apply("html", [text])[0] == [text]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            'Some <b>bold</b> text &amp; more<br/>line two.\n\nNext <i class="x">one</i>.',
            "Some bold text & more\nline two.\n\nNext one.",
        ),
        ("<p>One.</p><p>Two, a < b.</p>", "One.\n\n\n\nTwo, a < b."),
        ("Text <script>var x = 1;</script>goes <!-- hidden -->on <u>here</u>.", "Text goes on here."),
        ("A <a href='https://example.com'>link</a> and `<b>` kept.", "A link and `<b>` kept."),
    ],
)
def test_tags_in_text_are_taken_out(text: str, expected: str) -> None:
    assert without_tags(text).strip() == expected


def test_no_source_of_pythons_library_is_taken_for_html() -> None:
    library = Path(sysconfig.get_path("stdlib"))
    for path in sorted(library.glob("*.py"))[:150]:
        text = path.read_text("utf-8", errors="replace")
        assert without_tags(text) == text, path


def test_long_and_hostile_texts_take_no_time_to_speak_of() -> None:
    for part in (
        "<script>",
        "<!--",
        "<a ",
        "`",
        "```\n",
        "<b",
        "</",
        "<p x=",
        "<p x='",
        "<!-",
        "<svg>",
        "&",
        "<pre>",
        "    <b>\n",
    ):
        text = part * 20_000
        without_tags(text + "<b>x</b>")
        text_of_page(text)
        is_page(text)


def test_pages_are_told_from_other_texts() -> None:
    for page in ("<!doctype html>x", "\n <HTML lang=en>", "<?xml version='1.0'?>\n<!-- c -->\n<html>", "\ufeff<body>"):
        assert is_page(page)
    for other in ("<b>bold</b>", "text <html>", "<htmlx>", "", "<!-- <html> -->"):
        assert not is_page(other)


def test_a_page_without_content_is_dropped_and_counted() -> None:
    kept, tally = apply("html", ["<html><body><script>x</script></body></html>", PAGE])
    assert len(kept) == 1
    assert dict(tally.of("web").dropped) == {"empty": 1}
    assert tally.of("web").changed == 1


@given(unicode_texts)
def test_the_step_takes_any_text(text: str) -> None:
    apply("html", [text, "<html>" + text, "<b>x</b>" + text], keep="all")
    apply("html", [text], pages="all")
