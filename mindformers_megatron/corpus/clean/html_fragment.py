"""Telling HTML from text that merely has a ``<`` in it, and taking the tags out of text that has some.

Code, prose about code and HTML shown as an example keep every character: ``vector<string>``, ``a < b``, ``<stdio.h>``,
``Map<K, V>``, and what stands between backticks.
"""

import html
import re

from mindformers_megatron.corpus.clean.tags import CELL, KNOWN, LINE, PARAGRAPH, PREFORMATTED, VOID

_PAGE = re.compile(r"\s*\ufeff?(?:<\?xml[^>]*>\s*|<!--.*?-->\s*)*<(?:!doctype\s+html|html|head|body)\b", re.I | re.S)
_PAGE_CHARACTERS = 4096

_NAMES = "|".join(sorted(KNOWN, key=len, reverse=True))
# An attribute has a name; what C++ and TypeScript have between < and > does not go on like this.
_ATTRIBUTES = r"""(?:\s+[\w:@.-]+(?:\s*=\s*(?:"[^"]*"|'[^']*'|[^\s"'<>=`]+))?)*\s*/?"""
_TAG = re.compile(rf"<(/?)({_NAMES}){_ATTRIBUTES}>", re.I)
_SILENT = [
    (re.compile(r"<!--"), re.compile(r"-->")),
    *(
        (re.compile(rf"<{name}\b", re.I), re.compile(rf"</{name}\s*>", re.I))
        for name in ("script", "style", "template")
    ),
]
# Code in prose: fenced, between backticks, or indented, as in Markdown and reStructuredText.
_FENCED = r"^[ \t]*(?P<fence>```+|~~~+).*?(?:^[ \t]*(?P=fence)|\Z)|(?P<tick>`+)(?!`)[^\n]*?[^`](?P=tick)(?!`)"
_CODE = re.compile(f"({_FENCED})", re.M | re.S)
_CODE_OR_INDENTED = re.compile(rf"({_FENCED}|^(?: {{3}}|\t)[^\n]*)", re.M | re.S)
# Where the tags are what the lines begin with, it is they that are indented.
_LAID_OUT = re.compile(rf"^</?(?:{'|'.join(sorted(PARAGRAPH | LINE | CELL))})\b", re.M | re.I)
_UNKNOWN_END = re.compile(rf"</(?!(?:{_NAMES})\s*>)[a-z_]\w*\s*>", re.I)
_CODE_LINE = re.compile(
    r"\s*(?:[{}\])>;,]+|.*[;{}\\]|(?:def|class|import|from|return|if|else|for|while|elif|try|except|function|const|let|var"
    r"|public|private|protected|static|void|int|char|struct|enum|namespace|using|package|#include|#define|#ifdef|#endif|@\w+"
    r"|//|/\*|\*/|\*|#!)\b.*|(?:#|//|/\*|\* |--|%).*|[\w.\[\]\"']+\s*(?:[+*/|&-]?=|:=|\().*)$"
)
_CODE_SHARE = 0.25
_LINES_JUDGED = 400
_BREAKS = LINE | CELL
_PARAGRAPHS = PARAGRAPH | PREFORMATTED


def is_page(text: str) -> bool:
    """Whether a text is an HTML document: it begins as one."""
    return "<" in text[:_PAGE_CHARACTERS] and _PAGE.match(text, 0, _PAGE_CHARACTERS) is not None


def without_tags(text: str) -> str:
    """Takes the tags out of text that has been HTML in part: what scrapers leave, and what people write in Markdown.

    Its line ends stay, and entities such as ``&amp;`` are resolved where there were tags. A text whose tags do not come
    in pairs, that has tags of other languages, or whose lines look like those of a program, is returned as it is.
    """
    if "<" not in text or not _TAG.search(text):
        return text
    if _UNKNOWN_END.search(text) or _is_code(text):
        return text
    # Every fourth piece is prose; code, which follows, is followed by its two groups.
    pieces = (_CODE if _LAID_OUT.search(text) else _CODE_OR_INDENTED).split(text)
    if not _has_pairs("".join(pieces[::4])):
        return text
    prose = [html.unescape(_TAG.sub(_replacement, _without_silent(piece))) for piece in pieces[::4]]
    code = [*pieces[1::4], ""]
    return "".join(part for pair in zip(prose, code, strict=True) for part in pair)


def _has_pairs(text: str) -> bool:
    opened: set[str] = set()
    for tag in _TAG.finditer(text):
        name = tag[2].lower()
        if not tag[1] and name in VOID and name not in ("source", "link", "base", "area", "input"):
            return True
        if not tag[1]:
            opened.add(name)
        elif name in opened:
            return True
    return False


def _is_code(text: str) -> bool:
    lines = [line for line in text.split("\n", _LINES_JUDGED)[:_LINES_JUDGED] if line.strip()]
    # Of a line of HTML only what is beside its tags counts.
    bare = [line for line in (_TAG.sub("", line) for line in lines) if line.strip()]
    code = sum(_CODE_LINE.match(line) is not None for line in bare)
    return code > _CODE_SHARE * max(len(bare), 1)


def _without_silent(text: str) -> str:
    # Not one pattern with ``.*?``, which would look for the same missing end from every beginning.
    for begin, end in _SILENT:
        pieces, position = [], 0
        while (opened := begin.search(text, position)) and (closed := end.search(text, opened.end())):
            pieces.append(text[position : opened.start()])
            position = closed.end()
        text = "".join([*pieces, text[position:]])
    return text


def _replacement(tag: re.Match[str]) -> str:
    name = tag[2].lower()
    if name in _PARAGRAPHS:
        return "\n\n"
    if name in _BREAKS and (not tag[1] or name == "div"):
        return "\t" if name in CELL else "\n"
    return ""
