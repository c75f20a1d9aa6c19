"""Reading the YAML of a run: what it is based on, and overrides from the command line."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from mindformers_megatron.errors import ConfigError, DataError

Config = dict[str, Any]
BASE = "base_config"


def read_config(path: Path, overrides: Sequence[str] = ()) -> Config:
    """Reads a YAML file, what it is based on (``base_config``, relative to the file), and applies overrides.

    Args:
        path: The file.
        overrides: ``key=value``; the key is a dotted path in which list items go by number, the value is YAML.

    Raises:
        DataError: For a file that cannot be read or is no YAML.
        ConfigError: For an override that is none, or has no place in the file, and for a file based on itself.
    """
    config = _read(path, ())
    for override in overrides:
        key, separator, text = override.partition("=")
        if not separator or not key:
            raise ConfigError(f"override {override!r}: expected key=value, for example runner_config.epochs=2")
        try:
            value = yaml.safe_load(text)
        except yaml.YAMLError:
            raise ConfigError(f"override {override!r}: the value is not YAML") from None
        _set(config, key, value)
    return config


def _read(path: Path, above: tuple[Path, ...]) -> Config:
    if path.resolve() in above:
        raise ConfigError(f"{path}: is its own {BASE}, by way of {', '.join(map(str, above))}")
    try:
        config = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: cannot be read ({error})") from None
    except yaml.YAMLError as error:
        raise DataError(f"{path}: not YAML ({' '.join(str(error).split())})") from None
    if not isinstance(config, dict):
        raise DataError(f"{path}: expected a mapping of MindFormers' settings, found {type(config).__name__}")
    bases = config.pop(BASE, None) or []
    below: Config = {}
    for base in [bases] if isinstance(bases, str) else bases:
        below.update(_read(path.parent / base, (*above, path.resolve())))
    return _merged(below, config)


def _merged(below: Config, above: Config) -> Config:
    # As MindFormers does it: mappings key by key, anything else as a whole.
    merged = dict(below)
    for key, value in above.items():
        old = merged.get(key)
        merged[key] = _merged(old, value) if isinstance(old, dict) and isinstance(value, dict) else value
    return merged


def _set(config: Any, key: str, value: Any) -> None:
    *path, last = key.split(".")
    for depth, part in enumerate(path):
        if isinstance(config, dict):
            if not isinstance(config.get(part), dict | list):
                config[part] = {}
            config = config[part]
        else:
            config = config[_place(config, part, ".".join(path[: depth + 1]))]
    if isinstance(config, dict):
        config[last] = value
    else:
        config[_place(config, last, key)] = value


def _place(items: Any, part: str, key: str) -> int:
    if not isinstance(items, list) or not part.isdigit() or int(part) >= len(items):
        size = f"a list of {len(items)}" if isinstance(items, list) else type(items).__name__
        raise ConfigError(f"override of {key}: {part!r} has no place in {size}")
    return int(part)
