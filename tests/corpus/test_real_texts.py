"""On the texts of this machine: pages of documentation give text, programs are left alone, and prose passes."""

import sysconfig
from collections import Counter
from pathlib import Path

import pytest

from mindformers_megatron.corpus.clean.html_fragment import is_page, without_tags
from mindformers_megatron.corpus.clean.html_text import text_of_page
from mindformers_megatron.corpus.clean.mojibake import mend
from mindformers_megatron.corpus.clean.tags import SILENT
from mindformers_megatron.corpus.readers.cutting import plan_parts
from mindformers_megatron.corpus.readers.reading import read_part
from mindformers_megatron.corpus.readers.sources import Source
from mindformers_megatron.corpus.registry import DEFAULT_CHAIN, build_step
from mindformers_megatron.corpus.rejects import Rejects
from mindformers_megatron.corpus.steps import run_chain
from mindformers_megatron.corpus.tally import Tally

PROGRAMS = {
    "Python": (Path(sysconfig.get_path("stdlib")), "**/*.py"),
    "C": (Path("/usr/include"), "**/*.h"),
    "JavaScript": (Path("/usr/share/nodejs"), "**/*.js"),
}
PAGES = Path("/usr/share/doc")


@pytest.mark.slow
@pytest.mark.parametrize("language", PROGRAMS)
def test_programs_are_not_taken_for_html_nor_for_garbled_text(language: str) -> None:
    folder, pattern = PROGRAMS[language]
    paths = sorted(folder.glob(pattern))[::7][:1500]
    if not paths:
        pytest.skip(f"no {language} here")
    changed = []
    for path in paths:
        # Tests of encodings are garbled on purpose.
        if path.is_file() and "test" not in path.parts:
            text = path.read_text("utf-8", errors="replace")
            if without_tags(text) != text or is_page(text) or mend(text) != text:
                changed.append(path)
    assert len(changed) <= len(paths) / 500, changed


@pytest.mark.slow
def test_pages_of_documentation_become_text_and_most_of_it_passes() -> None:
    paths = sorted(path for path in PAGES.rglob("*.html") if path.is_file())[:300]
    if not paths:
        pytest.skip("no HTML documentation here")
    source = Source(paths=tuple(map(str, paths)), name="docs")
    rejects = Rejects(None)
    steps = [build_step(entry) for entry in DEFAULT_CHAIN]
    tallies = [Tally() for _ in steps]
    documents = [one for part in plan_parts(source, part_bytes=1 << 20) for one in read_part(part, rejects.add)]
    assert len(documents) + len(rejects.found) == len(paths)
    kept = [one for batch in run_chain(steps, documents, tallies) for one in batch.documents]
    dropped = sum((counts.dropped for tally in tallies for counts in tally.sources.values()), Counter())
    assert len(kept) + dropped.total() == len(documents)
    for one in kept:
        assert not is_page(one.text)
        assert "</p>" not in one.text or "&lt;/p" in next(raw.text for raw in documents if raw.id == one.id)


@pytest.mark.slow
def test_the_words_of_pages_are_those_that_a_parser_finds() -> None:
    lexbor = pytest.importorskip("selectolax.lexbor")
    paths = sorted(path for path in PAGES.rglob("*.html") if path.is_file())[:300]
    if not paths:
        pytest.skip("no HTML documentation here")
    for path in paths:
        page = path.read_text("utf-8", errors="replace")
        body = lexbor.LexborHTMLParser(page).body
        body.strip_tags(sorted(SILENT), recursive=True)
        # Where words end it does not know.
        assert "".join(text_of_page(page).split()) == "".join(body.text().split()), path
