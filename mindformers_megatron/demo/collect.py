"""Real text that every machine with Python already has, of three kinds and lengths."""

import ast
import json
import sysconfig
import tokenize
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

from mindformers_megatron.errors import DataError
from mindformers_megatron.format.atomic import open_atomically

# Not the language of the library: its tests, other people's packages, and tables of character codes.
_LEFT_OUT = {"test", "tests", "idle_test", "site-packages", "dist-packages", "encodings", "pydoc_data"}


@dataclass(frozen=True, slots=True)
class Text:
    """One document.

    Attributes:
        name: where it is from: a file of the library, an object in it, a topic, a package.
        text: the document itself.
    """

    name: str
    text: str


def library() -> Path:
    """The folder of Python's own library.

    Raises:
        DataError: it holds no sources, as in a Python without its library or with a zipped one.
    """
    folder = Path(sysconfig.get_path("stdlib"))
    if not (folder / "ast.py").is_file():
        raise DataError(
            f"{folder}: no sources of Python's own library here, which are the demo's text; "
            "use a Python from python.org, a distribution, conda or pyenv"
        )
    return folder


def code(folder: Path) -> Iterator[Text]:
    """The source files below ``folder``, in the order of their paths."""
    for path in sorted(folder.rglob("*.py")):
        parts = path.relative_to(folder).parts
        if not _LEFT_OUT.isdisjoint(parts):
            continue
        try:
            with tokenize.open(path) as file:
                yield Text("/".join(parts), file.read())
        except (SyntaxError, UnicodeDecodeError, OSError):  # test data of others among the sources
            continue


def prose(sources: Iterable[Text]) -> Iterator[Text]:
    """The docstrings in sources: many, and short."""
    for source in sources:
        try:
            tree = ast.parse(source.text)
        except (SyntaxError, ValueError):  # written for another Python
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                text = ast.get_docstring(node)
                name = "" if isinstance(node, ast.Module) else f":{node.name}"
                if text:
                    yield Text(source.name + name, text)


def manuals() -> Iterator[Text]:
    """The topics of Python's help and the descriptions of the installed packages: few, and long."""
    # Some distributions ship the topics in a package of their own.
    if find_spec("pydoc_data") is not None:
        from pydoc_data.topics import topics

        for topic, text in sorted(topics.items()):
            yield Text(f"help({topic!r})", text)
    for distribution in sorted(metadata.distributions(), key=lambda found: str(found.metadata["Name"])):
        about = distribution.metadata
        if "Description" in about:
            yield Text(str(about["Name"]), about["Description"])


def distinct(texts: Iterable[Text]) -> Iterator[Text]:
    """Leaves out texts that came before, and those of nothing but white space."""
    seen: set[str] = set()
    for text in texts:
        if text.text.strip() and text.text not in seen:
            seen.add(text.text)
            yield text


def collect(corpus: str) -> Iterator[Text]:
    """The texts of a corpus: ``prose``, ``code`` or ``manuals``.

    Raises:
        DataError: this Python has no sources.
    """
    if corpus == "manuals":
        return distinct(manuals())
    sources = code(library())
    return distinct(prose(sources) if corpus == "prose" else sources)


def write_jsonl(texts: Iterable[Text], corpus: str, path: Path) -> int:
    """Writes texts as JSON lines with ``id``, ``text`` and ``meta.source``; returns how many."""
    count = 0
    with open_atomically(path) as file:
        for text in texts:
            record = {"id": text.name, "text": text.text, "meta": {"source": corpus}}
            file.write(json.dumps(record, ensure_ascii=False).encode("utf-8", "replace") + b"\n")
            count += 1
    return count
