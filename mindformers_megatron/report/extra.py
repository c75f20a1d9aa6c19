"""What only reports need: named before any work, if it is not there."""

from importlib.util import find_spec

from mindformers_megatron.errors import ConfigError


def check_extra(package: str, work: str) -> None:
    """Raises ConfigError if a package of the extra ``report`` is missing.

    Args:
        package: Its name.
        work: What needs it, to begin a sentence with.
    """
    if find_spec(package) is None:
        raise ConfigError(f"{work} needs {package}; pip install 'mindformers-megatron[report]'")
