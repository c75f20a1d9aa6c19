"""The page: one file, without a request to anywhere, in which no text of a corpus can do anything."""

import base64
import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from mindformers_megatron._version import __version__
from mindformers_megatron.report.difference import differing_runs
from mindformers_megatron.report.findings import Finding, findings, percent
from mindformers_megatron.report.html.line_chart import line_charts
from mindformers_megatron.report.html.words import say, script_words
from mindformers_megatron.report.lengths import LengthHistogram
from mindformers_megatron.report.prepared import FoundSpan, Prepared
from mindformers_megatron.report.run_mix import RunMix


@dataclass(frozen=True, slots=True, kw_only=True)
class PairSummary:
    """A pair.

    Attributes:
        name: Of the corpus.
        path: Its prefix.
        tokens: It holds.
        documents: It holds.
        lengths: Of its documents.
    """

    name: str
    path: str
    tokens: int
    documents: int
    lengths: LengthHistogram


@dataclass(frozen=True, slots=True, kw_only=True)
class Contents:
    """All that a page shows.

    Attributes:
        name: What it is about.
        fingerprint: Of the plan; None without one.
        prepared: How the corpus was prepared; None where that is not known.
        mix: Of the run; None without one.
        pairs: The corpora.
        samples: See ``Viewer.samples``.
        documents: See ``Viewer.documents``.
        live: Whether the page is served, and can look things up.
    """

    name: str
    fingerprint: str | None = None
    prepared: Prepared | None = None
    mix: RunMix | None = None
    pairs: Sequence[PairSummary] = ()
    samples: Sequence[dict[str, Any]] = ()
    documents: Sequence[dict[str, Any]] = ()
    live: bool = False


def render_page(contents: Contents) -> bytes:
    """The page as UTF-8."""
    static = files("mindformers_megatron.report.html") / "static"
    style, script = ((static / name).read_text(encoding="utf-8") for name in ("page.css", "page.js"))
    environment = Environment(
        loader=PackageLoader("mindformers_megatron.report.html"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"count": _count, "percent": percent, "points": _points, "size": _size, "range": _range}
    page = environment.get_template("page.html.j2").render(
        contents=contents,
        findings=findings(contents.prepared, contents.mix),
        charts=line_charts(contents.mix) if contents.mix else (),
        clusters=_clusters(contents.prepared),
        say=say,
        say_finding=_say_finding,
        span_runs=_span_runs,
        difference=lambda example: differing_runs(example.text, example.after),
        # Hyphens and spaces that a narrow page does not break at.
        made=datetime.now(timezone.utc).strftime("%Y\u2011%m\u2011%d\u00a0%H:%M\u00a0UTC"),
        version=__version__,
        policy=content_policy(contents.live),
        style=Markup(style),
        script=Markup(script),
        data=script_json(
            {
                "samples": contents.samples,
                "documents": contents.documents,
                "words": script_words(),
                "live": contents.live,
            }
        ),
    )
    # A lone surrogate, from a JSON escape, has no bytes.
    return page.encode("utf-8", "replace")


def content_policy(live: bool) -> str:
    """The page's Content-Security-Policy: its own style and script, by their hashes, and nothing else."""
    static = files("mindformers_megatron.report.html") / "static"
    style, script = (
        base64.b64encode(hashlib.sha256((static / name).read_bytes()).digest()).decode()
        for name in ("page.css", "page.js")
    )
    connect = "'self'" if live else "'none'"
    return (
        f"default-src 'none'; style-src 'sha256-{style}'; script-src 'sha256-{script}'; connect-src {connect}; "
        "base-uri 'none'; form-action 'none'"
    )


def script_json(value: Any) -> Markup:
    """JSON that may stand in a ``<script>``: no text in it can end that, nor open a comment."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(text)


def _say_finding(finding: Finding) -> Markup:
    return say(finding.words, **finding.values)


def _clusters(prepared: Prepared | None) -> list[dict[str, Any]]:
    shown = []
    for cluster in prepared.clusters if prepared else ():
        pairs = []
        for copy in cluster.copies:
            kept, dropped = differing_runs(cluster.kept.text, copy.document.text)
            pairs.append({"other": copy, "kept": kept, "dropped": dropped})
        shown.append({"size": cluster.size, "kept": cluster.kept, "pairs": pairs})
    return shown


def _span_runs(span: FoundSpan) -> list[tuple[str, bool]]:
    text = span.document.text
    return [(text[: span.start], False), (text[span.start : span.end], True), (text[span.end :], False)]


def _count(value: int) -> str:
    return f"{value:,}"


def _points(share: float) -> str:
    points = round(100 * share, 3)
    return f"{points:+.3f}" if points else "0"


def _size(value: float) -> str:
    for unit in ("B", "kB", "MB", "GB"):
        if value < 1000:
            return f"{value:,.0f} {unit}" if unit == "B" else f"{value:,.1f} {unit}"
        value /= 1000
    return f"{value:,.1f} TB"


def _range(bits: int) -> str:
    """The lengths of a bit length: 10 → 512–1,023."""
    if bits <= 1:
        return str(bits)
    return f"{1 << (bits - 1):,}–{(1 << bits) - 1:,}"
