"""What a step is: a named rule with parameters, applied to documents, that counts what it does.

A step judges or rewrites each document by itself: the result depends neither on the other documents nor on how they are
batched. What needs the whole corpus (duplicates, contamination) is no step.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, Protocol

from mindformers_megatron.corpus.batch import Batch, batches_of
from mindformers_megatron.corpus.documents import Document
from mindformers_megatron.corpus.tally import Drop, Tally
from mindformers_megatron.errors import ConfigError
from mindformers_megatron.format.fingerprint import fingerprint_of
from mindformers_megatron.format.hashing import Hashes, hash_file

EMPTY = "empty"


class Step(Protocol):
    """A rule. Steps are frozen dataclasses; their fields are the parameters, under the names they have in a recipe.

    Attributes:
        name: in recipes, reports and errors.
        version: of the rule; raised whenever it comes to judge or rewrite differently, so that provenance tells which
            rule a text went through, and finished work is done anew.
    """

    @property
    def name(self) -> str: ...  # noqa: D102 - see above

    @property
    def version(self) -> int: ...  # noqa: D102

    def apply(self, batch: Batch, tally: Tally) -> Batch:
        """Returns the documents that are kept, as they are to be, in order.

        Args:
            batch: documents.
            tally: where drops, changes and finds are counted; what comes and goes is counted by the caller.
        """
        ...


def rewrite(batch: Batch, texts: Sequence[str], tally: Tally) -> Batch:
    """Replaces the texts, counts those that differ, and drops (as ``empty``) those of which only white space is left.

    Args:
        batch: documents.
        texts: their new texts.
        tally: of the step.
    """
    rewritten = batch.rewritten(texts)
    if rewritten is batch:
        return batch
    drops: list[Drop | None] = [None] * len(batch)
    for place, (before, after) in enumerate(zip(batch.documents, rewritten.documents, strict=True)):
        if after is not before:
            if after.text and not after.text.isspace():
                tally.change(before, after.text)
            else:
                drops[place] = Drop(EMPTY)
    return sift(batch, drops, tally, rewritten)


def sift(batch: Batch, drops: Sequence[Drop | None], tally: Tally, kept: Batch | None = None) -> Batch:
    """Drops documents and counts them.

    Args:
        batch: documents.
        drops: for each why it is dropped, or None.
        tally: of the step.
        kept: the documents as they are passed on; None: as they came.
    """
    places = []
    for place, (document, drop) in enumerate(zip(batch.documents, drops, strict=True)):
        if drop is None:
            places.append(place)
        else:
            tally.drop(document, drop)
    return (batch if kept is None else kept).kept(places)


class ForSources:
    """A step that is meant for some sources only; documents of others pass it untouched.

    Args:
        step: the step.
        sources: names of the sources it is for.
    """

    def __init__(self, step: Step, sources: Sequence[str]) -> None:
        if not sources:
            raise ConfigError(f"step {step.name}: sources is empty; name at least one, or leave it out")
        self.step = step
        self.sources = tuple(sources)

    @property
    def name(self) -> str:
        """That of the step."""
        return self.step.name

    @property
    def version(self) -> int:
        """That of the step."""
        return self.step.version

    def apply(self, batch: Batch, tally: Tally) -> Batch:
        """Applies the step to the documents it is for; see ``Step.apply``."""
        meant = [document.source in self.sources for document in batch.documents]
        if all(meant):
            return self.step.apply(batch, tally)
        if not any(meant):
            return batch
        documents: list[Document] = []
        start = 0
        for stop in [*(place for place in range(1, len(meant)) if meant[place] != meant[place - 1]), len(meant)]:
            run = batch.kept(range(start, stop))
            documents.extend((self.step.apply(run, tally) if meant[start] else run).documents)
            start = stop
        return Batch(documents)


AnyStep = Step | ForSources


def describe(step: AnyStep) -> dict[str, Any]:
    """What a step is, as JSON values: name, version, parameters, and the content of the files it goes by.

    Raises:
        ConfigError: one of these files cannot be read.
    """
    if isinstance(step, ForSources):
        return {**describe(step.step), "sources": list(step.sources)}
    of_dataclass: Any = step
    parameters = {field.name: _plain(getattr(step, field.name)) for field in fields(of_dataclass)}
    described = {"name": step.name, "version": step.version, "parameters": parameters}
    files = {str(path): _sha256(path, step.name) for path in getattr(step, "files", ())}
    return {**described, "files": files} if files else described


def chain_fingerprint(steps: Sequence[AnyStep]) -> str:
    """One text for a chain of steps; any change of what they do to a text changes it."""
    return fingerprint_of({"steps": [describe(step) for step in steps]})


def run_chain(steps: Sequence[AnyStep], documents: Iterable[Document], tallies: Sequence[Tally]) -> Iterator[Batch]:
    """Passes documents through steps, in order, in bounded memory.

    Args:
        steps: the steps.
        documents: the documents.
        tallies: one for each step, to which is added what it does.

    Yields:
        What is kept, in batches, none of which is empty.
    """
    for batch in batches_of(documents):
        for step, tally in zip(steps, tallies, strict=True):
            tally.enter(batch)
            batch = step.apply(batch, tally)
            tally.leave(batch)
            if not batch:
                break
        else:
            yield batch


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)


def _sha256(path: Path, name: str) -> str:
    try:
        with path.open("rb") as file:
            hashes = Hashes(sha256=True, md5=False)
            hash_file(file.fileno(), hashes)
            return str(hashes.sha256)
    except OSError as error:
        raise ConfigError(f"step {name}: {path} cannot be read: {error.strerror}") from None
