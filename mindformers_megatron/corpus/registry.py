"""The steps by name, as recipes call them."""

import importlib
from collections.abc import Mapping
from typing import Any, cast

from mindformers_megatron.corpus.parameters import from_options
from mindformers_megatron.corpus.steps import ForSources, Step
from mindformers_megatron.errors import ConfigError, unknown_option

# Name → module and class; only those of a recipe are imported.
STEPS = {
    "html": "clean.html:Html",
    "markdown": "clean.markdown:Markdown",
    "unicode": "clean.unicode:Unicode",
    "mojibake": "clean.mojibake:Mojibake",
    "whitespace": "clean.whitespace:Whitespace",
    "urls": "clean.urls:Urls",
    "pii": "clean.pii.step:Pii",
    "rules": "clean.rules:Rules",
    "length": "filters.length:Length",
    "split": "filters.split:Split",
    "language": "filters.language:Language",
    "gopher_quality": "filters.gopher_quality:GopherQuality",
    "gopher_repetition": "filters.gopher_repetition:GopherRepetition",
    "c4": "filters.c4:C4",
    "fineweb": "filters.fineweb:FineWeb",
    "punctuation": "filters.punctuation:Punctuation",
    "url_share": "filters.url_share:UrlShare",
    "blocked_words": "filters.words:BlockedWords",
    "blocked_domains": "filters.domains:BlockedDomains",
    "classifier": "filters.classifier:Classifier",
    "sample": "filters.sample:Sample",
}
# What is done where a recipe does not say what to do.
DEFAULT_CHAIN = (
    "html",
    "unicode",
    "mojibake",
    "whitespace",
    "pii",
    "punctuation",
    "language",
    "gopher_repetition",
    "gopher_quality",
    "fineweb",
)


def step_class(name: str) -> type[Step]:
    """The class of a step.

    Raises:
        ConfigError: there is no step of that name; the nearest one is named.
    """
    if name not in STEPS:
        raise ConfigError(
            unknown_option(name, STEPS).replace("unknown option", "unknown step").replace("options", "steps")
        )
    module, _, class_name = STEPS[name].partition(":")
    return cast(type[Step], getattr(importlib.import_module(f"mindformers_megatron.corpus.{module}"), class_name))


def build_step(entry: str | Mapping[str, Any]) -> Step:
    """Builds a step from an entry of a recipe.

    Args:
        entry: its name, or ``{name: parameters}``. Among the parameters, ``sources`` names the sources it is meant for.

    Raises:
        ConfigError: an unknown step or parameter, or a value that is none.
    """
    if isinstance(entry, str):
        entry = {entry: None}
    if not isinstance(entry, Mapping) or len(entry) != 1:
        raise ConfigError(f"a step is {entry!r}; expected a name, or one name with its parameters")
    ((name, given),) = entry.items()
    if not isinstance(name, str):
        raise ConfigError(f"a step is called {name!r}; expected one of: {', '.join(STEPS)}")
    cls = step_class(name)
    where = f"step {name}"
    if given is not None and not isinstance(given, Mapping):
        raise ConfigError(f"{where}: {given!r}; expected parameters, as name: value")
    options = dict(given or {})
    sources = options.pop("sources", None)
    step = from_options(cls, options, where)
    if sources is None:
        return step
    names = [sources] if isinstance(sources, str) else sources
    if not isinstance(names, list) or not all(isinstance(source, str) for source in names):
        raise ConfigError(f"{where}: sources is {sources!r}; expected names of sources")
    return ForSources(step, names)
