"""The guides say the same in both languages, point at what is there, and quote the program's own words."""

import re
import sys
from pathlib import Path

import pytest
import yaml

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

from .guides import ENGLISH, ROOT, blocks, translation

GUIDES = [*ENGLISH, *map(translation, ENGLISH)]


def names(paths: list[Path]) -> list[str]:
    return [str(path.relative_to(ROOT)) for path in paths]


@pytest.mark.parametrize("guide", ENGLISH, ids=names(ENGLISH))
def test_the_translation_has_the_same_commands_and_output(guide: Path) -> None:
    ours, theirs = ([(block.kind, block.code) for block in blocks(path)] for path in (guide, translation(guide)))
    assert ours == theirs


@pytest.mark.parametrize("guide", GUIDES, ids=names(GUIDES))
def test_links_lead_somewhere(guide: Path) -> None:
    text = guide.read_text(encoding="utf-8")
    for target in re.findall(r"\]\((?!https?:)([^)#]+)", text):
        assert (guide.parent / target).exists(), target


@pytest.mark.parametrize("guide", GUIDES, ids=names(GUIDES))
def test_yaml_is_yaml(guide: Path) -> None:
    for block in blocks(guide):
        if block.kind == "yaml":
            assert yaml.safe_load(block.text)


@pytest.mark.parametrize("language", ["", ".zh-CN"])
def test_quoted_messages_are_the_programs_own(language: str) -> None:
    source = "\n".join(
        path.read_text(encoding="utf-8") for path in sorted((ROOT / "mindformers_megatron").rglob("*.py"))
    )
    # Adjoining string literals are one string; what is filled in is not compared.
    source = re.sub(r'"\s*\n\s*f?"', "", source)
    source += "the parameter 'epoch' must bigger than parameter 'initial_epoch'"  # MindSpore's
    headings = re.findall(
        r"^## `(.+)`$", (ROOT / "docs" / f"troubleshoot{language}.md").read_text("utf-8"), re.MULTILINE
    )
    assert len(headings) > 5
    for heading in headings:
        for fragment in heading.split("…"):
            assert fragment.strip() in source, heading


def test_tests_that_the_readme_names_exist() -> None:
    for path in re.findall(r"\(((?:tests|benchmarks)/[^)]+)\)", (ROOT / "README.md").read_text(encoding="utf-8")):
        assert (ROOT / path).exists(), path


@pytest.mark.parametrize("language", ["", ".zh-CN"])
def test_each_dependency_has_its_reason(language: str) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    declared = {("", name_of(requirement)) for requirement in project["dependencies"]}
    for extra, requirements in project["optional-dependencies"].items():
        declared |= {(extra, name_of(requirement)) for requirement in requirements}
    explained = set()
    for line in (ROOT / "docs" / f"dependencies{language}.md").read_text(encoding="utf-8").splitlines():
        *extra, packages, reason = line.strip("| ").split(" | ") if line.count(" | ") else ["", ""]
        assert reason or not packages
        explained |= {(extra[0].strip("`") if extra else "", name) for name in re.findall("`([^`]+)`", packages)}
    assert explained == declared


def name_of(requirement: str) -> str:
    name = re.match(r"[\w-]+", requirement)
    assert name is not None
    return name[0]


def test_the_makefile_has_the_targets_that_the_readme_names() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in re.findall(r"^make (\S+)", (ROOT / "README.md").read_text(encoding="utf-8"), re.MULTILINE):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE)
