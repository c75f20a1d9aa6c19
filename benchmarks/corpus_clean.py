"""How fast raw text is cleaned and filtered, per core: each step alone, and the default chain.

The texts are what is on this machine: HTML and reStructuredText of Debian's documentation packages where they are
unpacked below ``--docs`` (``python3.11-doc``, ``debian-handbook``, ``debian-reference-zh-cn``, for example), the
sources of Python's library, and the manuals of its packages. Speeds are MB of input per second of processor time.
"""

import argparse
import sysconfig
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from mindformers_megatron.corpus.clean.html import main_content
from mindformers_megatron.corpus.documents import Document, Origin
from mindformers_megatron.corpus.languages import identify
from mindformers_megatron.corpus.registry import DEFAULT_CHAIN, build_step
from mindformers_megatron.corpus.steps import run_chain
from mindformers_megatron.corpus.tally import Tally

BYTES = 16_000_000
LARGEST = 1_000_000
ROUNDS = 3


def files(folders: Sequence[Path], *patterns: str) -> Iterator[Path]:
    """Files below some folders, spread over them."""
    below = (path for folder in folders for pattern in patterns for path in folder.rglob(pattern))
    found = sorted(path for path in below if path.is_file())
    step = 7919  # a prime, so that all are reached
    return (found[number * step % len(found)] for number in range(len(found)))


def texts(paths: Iterator[Path], size: int) -> list[str]:
    """Their texts in UTF-8, until there are so many bytes."""
    chosen: list[str] = []
    for path in paths:
        data = path.read_bytes()
        if 500 <= len(data) <= LARGEST:
            try:
                chosen.append(data.decode())
            except UnicodeDecodeError:
                continue
            size -= len(data)
            if size <= 0:
                break
    return chosen


def megabytes(documents: Sequence[str]) -> float:
    """UTF-8 bytes of all, in millions."""
    return sum(len(text.encode()) for text in documents) / 1e6


def seconds(work: Callable[[], object]) -> float:
    """Processor time of the fastest of some rounds."""
    best = float("inf")
    for _ in range(ROUNDS):
        begun = time.process_time()
        work()
        best = min(best, time.process_time() - begun)
    return best


def run_steps(entries: Sequence[str | Mapping[str, Any]], documents: Sequence[Document]) -> None:
    """Passes documents through steps."""
    steps = [build_step(entry) for entry in entries]
    for _ in run_chain(steps, documents, [Tally() for _ in steps]):
        pass


def row(name: str, size: float, work: Callable[[], object]) -> None:
    print(f"{name:44s} {size / seconds(work):8.1f} MB/s", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--docs", type=Path, nargs="*", default=[Path("/usr/share/doc"), Path("/usr/share/devhelp")])
    args = parser.parse_args()
    library = Path(sysconfig.get_path("stdlib"))
    folders = [*(folder for folder in args.docs if folder.is_dir()), library]
    pages = texts(files(folders, "*.html"), BYTES)
    if pages:
        size = megabytes(pages)
        print(f"{len(pages):,} pages, {size:.1f} MB")
        row("html, main content", size, lambda: [main_content(page) for page in pages])
        as_documents = documents_of(pages)
        row("html, tags only", size, lambda: run_steps([{"html": {"keep": "all"}}], as_documents))
        row("default chain on pages", size, lambda: run_steps(DEFAULT_CHAIN, as_documents))
    prose = texts(files(folders, "*.rst.txt", "*.rst", "*.txt", "*.md", "METADATA"), BYTES // 2)
    prose += texts(files([library], "*.py"), BYTES // 4)
    prose += [main_content(page) for page in pages[: len(pages) // 2]]
    size = megabytes(prose)
    print(f"{len(prose):,} texts, {size:.1f} MB")
    row("language", size, lambda: identify(prose))
    as_documents = documents_of(prose)
    for name in DEFAULT_CHAIN:
        row(f"step {name}", size, lambda name=name: run_steps([name], as_documents))
    row("default chain", size, lambda: run_steps(DEFAULT_CHAIN, as_documents))


def documents_of(contents: Sequence[str]) -> list[Document]:
    """Documents with these texts."""
    return [Document(text, str(number), "docs", Origin("docs", number, 0)) for number, text in enumerate(contents, 1)]


if __name__ == "__main__":
    main()
