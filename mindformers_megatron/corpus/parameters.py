"""From the words of a recipe to the fields of a frozen dataclass, every value checked against its type."""

import types
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from mindformers_megatron.errors import ConfigError, unknown_option

Spec = TypeVar("Spec")

_KINDS: dict[type, str] = {bool: "true or false", int: "a whole number", float: "a number", str: "text"}


class _MismatchError(Exception):
    """A value that is not of its type; the message is what was expected."""


def from_options(cls: type[Spec], options: Mapping[str, Any] | None, where: str) -> Spec:
    """Builds a dataclass from options.

    Its own ``__post_init__`` checks what a type cannot say. A single value stands for a list of one.

    Args:
        cls: a dataclass whose fields are of the types ``bool``, ``int``, ``float``, ``str``, ``Literal``, ``X | None``,
            ``tuple[X, ...]``, ``Mapping[K, X]`` or are dataclasses of that kind.
        options: by field name, as they come from YAML.
        where: what the options belong to, for messages.

    Raises:
        ConfigError: an unknown option (the nearest known one is named), a missing one, or a value of another type.
    """
    if options is None:
        options = {}
    if not isinstance(options, Mapping):
        raise ConfigError(f"{where}: {options!r}; expected options, as name: value")
    known = {field.name: field for field in fields(cls)}  # type: ignore[arg-type]
    hints = get_type_hints(cls)
    for name in options:
        if name not in known:
            raise ConfigError(f"{where}: {unknown_option(str(name), list(known))}")
    for name, field in known.items():
        if name not in options and field.default is MISSING and field.default_factory is MISSING:
            raise ConfigError(f"{where}: {name} is missing")
    values = {}
    for name, value in options.items():
        try:
            values[name] = _convert(hints[name], value, f"{where}.{name}")
        except _MismatchError as error:
            raise ConfigError(f"{where}: {name} is {value!r}; expected {error}") from None
    try:
        return cls(**values)
    except ConfigError as error:
        raise ConfigError(f"{where}: {error}") from None


def _convert(kind: Any, value: Any, where: str) -> Any:
    origin, inner = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        if value is None and types.NoneType in inner:
            return None
        (only,) = (option for option in inner if option is not types.NoneType)
        return _convert(only, value, where)
    if origin is Literal:
        if value not in inner:
            raise _MismatchError(f"one of: {', '.join(map(str, inner))}")
        return value
    if origin is tuple:
        return _convert_all(inner[0], value, where)
    if origin is Mapping or (isinstance(origin, type) and issubclass(origin, Mapping)):
        if not isinstance(value, Mapping):
            raise _MismatchError("a mapping")
        return {_convert(inner[0], key, where): _convert(inner[1], item, where) for key, item in value.items()}
    if isinstance(kind, type) and is_dataclass(kind):
        return from_options(kind, value, where)
    return _convert_plain(kind, value)


def _convert_all(kind: Any, value: Any, where: str) -> tuple[Any, ...]:
    items = value if isinstance(value, Sequence) and not isinstance(value, str) else [value]
    try:
        return tuple(_convert(kind, item, where) for item in items)
    except _MismatchError as error:
        raise _MismatchError(f"a list, each {error}") from None


def _convert_plain(kind: type, value: Any) -> Any:
    # YAML's true is an int to Python, and its 1 is no float; the first is a mistake, the second is none.
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if not isinstance(value, kind) or (kind is not bool and isinstance(value, bool)):
        raise _MismatchError(_KINDS[kind])
    return value
