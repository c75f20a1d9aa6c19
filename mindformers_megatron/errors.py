"""The two kinds of error that users meet.

Both take one string: MindFormers re-raises what a loader's constructor raises as ``type(error)(message)``, and an
exception with other arguments would turn into a meaningless TypeError there.
"""


class DataError(ValueError):
    """Something read from outside is damaged, missing or not what it claims to be (``mfm`` exits with 1)."""


class ConfigError(ValueError):
    """What was asked for cannot be done as asked: an option, a YAML value, a combination (``mfm`` exits with 2)."""
