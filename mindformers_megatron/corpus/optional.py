"""Libraries that only some steps need, imported where they are used."""

import importlib
from typing import Any

from mindformers_megatron.errors import ConfigError


def needed(module: str, by: str) -> Any:
    """Imports a module of the ``corpus`` extra.

    Args:
        module: its import name.
        by: who needs it, for the message.

    Raises:
        ConfigError: it is not installed.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ConfigError(
            f"{by} needs {module}, which cannot be imported ({error}); pip install 'mindformers-megatron[corpus]'"
        ) from None
