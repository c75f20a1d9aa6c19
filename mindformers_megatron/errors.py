"""The two kinds of error that users meet, and the message they meet most.

Both take one string: MindFormers re-raises what a loader's constructor raises as ``type(error)(message)``, and an
exception with other arguments would turn into a meaningless TypeError there.
"""

import difflib
from collections.abc import Iterable


class DataError(ValueError):
    """Something read from outside is damaged, missing or not what it claims to be (``mfm`` exits with 1)."""


class ConfigError(ValueError):
    """What was asked for cannot be done as asked: an option, a YAML value, a combination (``mfm`` exits with 2)."""


def unknown_option(name: str, known: Iterable[str]) -> str:
    """The message for an option that does not exist, with the one that was probably meant."""
    names = list(known)
    near = difflib.get_close_matches(name, names, n=1)
    hint = f"did you mean {near[0]}?" if near else f"known options: {', '.join(names)}"
    return f"unknown option {name!r}; {hint}"
