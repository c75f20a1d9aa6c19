"""The Python examples of the guides, run as they stand."""

import doctest
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
GUIDES = sorted(path.name for path in DOCS.glob("*.md") if ">>> " in path.read_text(encoding="utf-8"))


@pytest.mark.parametrize("guide", GUIDES)
def test_the_examples_of_a_guide_do_what_it_says(guide: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = (DOCS / guide).read_text(encoding="utf-8")
    # A fence that ends an example would be taken for its output.
    parser = doctest.DocTestParser()
    test = parser.get_doctest(text.replace("```", ""), {}, guide, guide, 0)
    failures: list[str] = []
    runner = doctest.DocTestRunner(optionflags=doctest.IGNORE_EXCEPTION_DETAIL)
    runner.run(test, out=failures.append)
    assert runner.summarize(verbose=False).attempted > 0
    assert not failures, "".join(failures)
