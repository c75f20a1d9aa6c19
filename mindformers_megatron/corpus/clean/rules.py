"""The step ``rules``: what a source needs that no other does, as patterns in the recipe."""

import functools
from dataclasses import dataclass
from typing import Any, ClassVar

from mindformers_megatron.corpus.batch import Batch
from mindformers_megatron.corpus.optional import needed
from mindformers_megatron.corpus.steps import rewrite
from mindformers_megatron.corpus.tally import Tally
from mindformers_megatron.errors import ConfigError, DataError

_SECONDS = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Replacement:
    r"""A pattern and what is put in its place, in which ``\1`` is its first group."""

    pattern: str
    by: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """Patterns for one source (give ``sources`` with it): the boilerplate of a site, the licence before every book.

    Patterns are regular expressions of the ``regex`` package, in which ``^`` and ``$`` match at every line. They are
    applied in the order of the attributes. One that takes more than ten seconds for a text ends the run, naming the
    document.

    Attributes:
        start_after: the text begins behind the first match, if there is one.
        stop_before: the text ends before the first match.
        drop_lines: lines in which any of these is found go.
        replace: patterns and their replacements.
    """

    name: ClassVar[str] = "rules"
    version: ClassVar[int] = 1

    start_after: str | None = None
    stop_before: str | None = None
    drop_lines: tuple[str, ...] = ()
    replace: tuple[Replacement, ...] = ()

    def __post_init__(self) -> None:
        if not (self.start_after or self.stop_before or self.drop_lines or self.replace):
            raise ConfigError("no rule given; give start_after, stop_before, drop_lines or replace")
        for pattern in (self.start_after, self.stop_before, *self.drop_lines, *(rule.pattern for rule in self.replace)):
            if pattern is not None:
                _compiled(pattern)
        for rule in self.replace:
            try:
                # A template is looked at when something matches, so something has to.
                _compiled(f"(?:{rule.pattern})|").sub(rule.by, "")
            except Exception as error:
                raise ConfigError(f"replacement {rule.by!r} does not fit {rule.pattern!r}: {error}") from None

    def apply(self, batch: Batch, tally: Tally) -> Batch:
        """See ``Step.apply``."""
        texts = []
        for document in batch.documents:
            try:
                texts.append(self._clean(document.text))
            except TimeoutError:
                raise DataError(
                    f"{document.origin}: a pattern of step rules took more than {_SECONDS:.0f} seconds for document "
                    f"{document.id!r}; make it simpler: no repeats within repeats"
                ) from None
        return rewrite(batch, texts, tally)

    def _clean(self, text: str) -> str:
        if self.start_after and (match := _compiled(self.start_after).search(text, timeout=_SECONDS)):
            text = text[match.end() :]
        if self.stop_before and (match := _compiled(self.stop_before).search(text, timeout=_SECONDS)):
            text = text[: match.start()]
        if self.drop_lines:
            patterns = [_compiled(pattern) for pattern in self.drop_lines]
            lines = text.split("\n")
            kept = [line for line in lines if not any(p.search(line, timeout=_SECONDS) for p in patterns)]
            text = "\n".join(kept) if len(kept) < len(lines) else text
        for rule in self.replace:
            text = _compiled(rule.pattern).sub(rule.by, text, timeout=_SECONDS)
        return text


@functools.lru_cache(maxsize=256)
def _compiled(pattern: str) -> Any:
    regex = needed("regex", "step rules")
    try:
        return regex.compile(pattern, regex.MULTILINE)
    except regex.error as error:
        raise ConfigError(f"pattern {pattern!r} is no regular expression: {error}") from None
