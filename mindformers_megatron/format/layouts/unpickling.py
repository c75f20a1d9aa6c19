"""Reading plain data out of a pickle without running what is in it.

A pickle is a program: it may name any function and have it called. Here only those of its instructions are carried out
that make plain data. A name is looked up in a short list, and what is found there is a stand-in that notes what a NumPy
array would be made of: nothing is imported, and nothing that is called belongs to NumPy or to anybody else. Arrays are
made afterwards of what was noted, if it is numbers.
"""

import io
import math
import pickle
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

# Modules of NumPy before and since its version 2.
_CORES = ("numpy.core", "numpy._core")
_ALLOWED: dict[tuple[str, str], str] = {
    ("numpy", "ndarray"): "ndarray",
    ("numpy", "dtype"): "dtype",
    ("collections", "OrderedDict"): "dict",
    ("_codecs", "encode"): "encode",
    ("__builtin__", "bytes"): "bytes",
    ("builtins", "bytes"): "bytes",
    **{(f"{core}.multiarray", "_reconstruct"): "array" for core in _CORES},
    **{(f"{core}.multiarray", "scalar"): "scalar" for core in _CORES},
    **{(f"{core}.numeric", "_frombuffer"): "frombuffer" for core in _CORES},
}
# Of containers, and of things to be referred to again: plain data has a handful, however many numbers are in them.
_MOST_OBJECTS = 100_000
_MOST_DIGITS = 20
_MOST_CHARACTERS = 200


class RefusedPickleError(Exception):
    """A pickle holds something else than plain data; the message says what."""


def load_plain(data: bytes) -> Any:
    """The content of a pickle that holds nothing but dictionaries, lists, tuples, texts, numbers and arrays of numbers.

    Args:
        data: the pickle, of any protocol.

    Raises:
        RefusedPickleError: it holds something else, or is no pickle.
    """
    try:
        return _plain(_PlainUnpickler(io.BytesIO(data)).load(), {})
    except RefusedPickleError:
        raise
    except RecursionError:
        raise RefusedPickleError("is nested too deeply") from None
    except KeyError as error:
        raise RefusedPickleError(f"has an instruction or a reference of which plain data has none: {error}") from None
    # A hostile program fails in more ways than can be listed; none of them is a fault of this one.
    except Exception as error:
        reason = " ".join(str(error).split())[:_MOST_CHARACTERS]
        raise RefusedPickleError(f"is no pickle of plain data: {type(error).__name__}: {reason}") from None


# The unpickler that is written in Python: the one in C carries out all instructions, and lets itself be crashed.
class _PlainUnpickler(pickle._Unpickler):
    dispatch: ClassVar[dict[int, Callable[[Any], None]]] = {}
    _objects = 0

    def find_class(self, module_name: str, global_name: str) -> Any:
        kind = _ALLOWED.get((module_name, global_name))
        if kind is None:
            name = f"{module_name}.{global_name}"
            raise RefusedPickleError(f"names {name!r}, which is neither a container nor a number")
        return _Name(kind)

    def count_object(self) -> None:
        """Notes that another object is kept."""
        self._objects += 1
        if self._objects > _MOST_OBJECTS:
            raise RefusedPickleError(f"holds more than {_MOST_OBJECTS:,} objects")


_READER: dict[int, Callable[[Any], None]] = pickle._Unpickler.dispatch
_AS_THEY_ARE = (
    *(pickle.PROTO, pickle.FRAME, pickle.STOP, pickle.MARK, pickle.NONE, pickle.NEWTRUE, pickle.NEWFALSE),
    *(pickle.BININT, pickle.BININT1, pickle.BININT2, pickle.LONG1, pickle.LONG4, pickle.FLOAT, pickle.BINFLOAT),
    *(pickle.STRING, pickle.BINSTRING, pickle.SHORT_BINSTRING, pickle.UNICODE, pickle.BINUNICODE),
    *(pickle.SHORT_BINUNICODE, pickle.BINUNICODE8, pickle.BINBYTES, pickle.SHORT_BINBYTES, pickle.BINBYTES8),
    *(pickle.BYTEARRAY8, pickle.EMPTY_TUPLE, pickle.APPEND, pickle.APPENDS),
    *(pickle.GET, pickle.BINGET, pickle.LONG_BINGET, pickle.GLOBAL, pickle.STACK_GLOBAL),
)
_COUNTED = (
    *(pickle.EMPTY_LIST, pickle.LIST, pickle.EMPTY_DICT, pickle.TUPLE, pickle.TUPLE1, pickle.TUPLE2, pickle.TUPLE3),
    *(pickle.PUT, pickle.BINPUT, pickle.LONG_BINPUT, pickle.MEMOIZE),
)


def _instruction(code: bytes) -> Callable[[Callable[[Any], None]], Callable[[Any], None]]:
    def register(handler: Callable[[Any], None]) -> Callable[[Any], None]:
        _PlainUnpickler.dispatch[code[0]] = handler
        return handler

    return register


def _counted(code: bytes) -> None:
    handler = _READER[code[0]]

    @_instruction(code)
    def _carry_out(reader: Any) -> None:
        reader.count_object()
        handler(reader)


for _code in _AS_THEY_ARE:
    _PlainUnpickler.dispatch[_code[0]] = _READER[_code[0]]
for _code in _COUNTED:
    _counted(_code)


@_instruction(pickle.INT)
@_instruction(pickle.LONG)
def _load_digits(reader: Any) -> None:
    # Python takes the square of the time for the number of digits.
    digits = reader.readline().strip().removesuffix(b"L")
    if len(digits) > _MOST_DIGITS:
        raise RefusedPickleError(f"has a number of {len(digits):,} digits")
    reader.append({b"00": False, b"01": True}.get(digits, int(digits)))


@_instruction(pickle.SETITEM)
def _set_item(reader: Any) -> None:
    value, key = reader.stack.pop(), reader.stack.pop()
    _put(reader.stack[-1], [key, value])


@_instruction(pickle.SETITEMS)
def _set_items(reader: Any) -> None:
    items = reader.pop_mark()
    _put(reader.stack[-1], items)


@_instruction(pickle.DICT)
def _make_dict(reader: Any) -> None:
    reader.count_object()
    content: dict[Any, Any] = {}
    _put(content, reader.pop_mark())
    reader.append(content)


@_instruction(pickle.REDUCE)
def _call(reader: Any) -> None:
    reader.count_object()
    arguments = reader.stack.pop()
    name = reader.stack[-1]
    if type(name) is not _Name or type(arguments) is not tuple:
        raise RefusedPickleError("calls what it may not")
    reader.stack[-1] = name.make(*arguments)


@_instruction(pickle.BUILD)
def _build(reader: Any) -> None:
    state = reader.stack.pop()
    if type(reader.stack[-1]) not in (_Array, _DType):
        raise RefusedPickleError("changes what it may not")
    reader.stack[-1].build(state)


def _put(target: Any, items: list[Any]) -> None:
    if type(target) is not dict:
        raise RefusedPickleError("puts entries into what is no dictionary")
    for key, value in zip(items[::2], items[1::2], strict=True):
        # A key of nested tuples takes a stack as deep to be hashed.
        if type(key) not in (str, int):
            raise RefusedPickleError(f"has a {type(key).__name__} as a key")
        target[key] = value


class _Name:
    """Stands in for a name of the list."""

    __slots__ = ("_kind",)

    def __init__(self, kind: str) -> None:
        self._kind = kind

    def make(self, *arguments: Any) -> Any:
        """What a call of the name makes."""
        make: dict[str, Callable[..., Any]] = {
            "dtype": _DType,
            "array": lambda *_: _Array(),
            "scalar": _scalar,
            "frombuffer": _from_buffer,
            "dict": dict,
            "encode": _encode,
            "bytes": lambda: b"",
        }
        if self._kind not in make:
            raise RefusedPickleError(f"makes an {self._kind} in no way that NumPy does")
        return make[self._kind](*arguments)


class _DType:
    """What a NumPy type would be made of."""

    __slots__ = ("_name", "_order")

    def __init__(self, name: Any = "", align: Any = False, copy: Any = False) -> None:
        if not isinstance(name, str) or len(name) > 4 or name.lstrip("<>=|")[:1] not in ("b", "i", "u", "f"):
            raise RefusedPickleError(f"has an array of {str(name)[:20]!r}, which are no numbers")
        self._name, self._order = name, "="

    def build(self, state: Any) -> None:
        """Takes in the rest."""
        # (version, byte order, sub-array, field names, fields, ...): only plain types have none of the latter.
        if not isinstance(state, tuple) or len(state) < 5 or any(part is not None for part in state[2:5]):
            raise RefusedPickleError("has an array of structures")
        if state[1] not in ("<", ">", "=", "|"):
            raise RefusedPickleError("has an array without a byte order")
        self._order = state[1]

    def dtype(self) -> np.dtype[Any]:
        """The type, if it is one of numbers."""
        dtype = np.dtype(self._name)
        if dtype.kind not in "biuf":
            raise RefusedPickleError(f"has an array of {self._name!r}, which are no numbers")
        return dtype.newbyteorder(">" if self._order == ">" else "<")


class _Array:
    """What a NumPy array would be made of."""

    __slots__ = ("_state",)

    def __init__(self) -> None:
        self._state: tuple[Any, Any, Any] | None = None

    def build(self, state: Any) -> None:
        """Takes in the rest."""
        if not isinstance(state, tuple) or len(state) != 5:
            raise RefusedPickleError("has an array in no form that NumPy writes")
        _, shape, dtype, _, data = state
        self._state = (shape, dtype, data)

    @classmethod
    def of(cls, shape: Any, dtype: Any, data: Any) -> "_Array":
        """The same, made in one go."""
        array = cls()
        array._state = (shape, dtype, data)
        return array

    def array(self) -> NDArray[Any]:
        """The array, if it has numbers in one row."""
        shape, dtype, data = self._state or (None, None, None)
        if not isinstance(dtype, _DType) or not isinstance(data, bytes | bytearray):
            raise RefusedPickleError("has an array that does not consist of numbers")
        if not isinstance(shape, tuple) or not all(type(size) is int and size >= 0 for size in shape):
            raise RefusedPickleError("has an array without a shape")
        found = np.frombuffer(bytes(data), dtype.dtype())
        if math.prod(shape) != found.size:
            raise RefusedPickleError(f"has an array of shape {shape} with {found.size} numbers")
        return found.reshape(shape)


def _scalar(dtype: Any = None, data: Any = None) -> Any:
    return _Array.of((), dtype, data).array().item()


def _from_buffer(data: Any = None, dtype: Any = None, shape: Any = None, order: Any = "C") -> Any:
    return _Array.of(shape, dtype, data)


def _encode(text: Any = "", encoding: Any = "latin1") -> bytes:
    # How bytes are written by the oldest protocols.
    if not isinstance(text, str) or encoding not in ("latin1", "latin-1"):
        raise RefusedPickleError("encodes texts")
    return text.encode("latin-1")


def _plain(value: Any, made: dict[int, Any]) -> Any:
    if type(value) is _Array:
        return value.array()
    if value is None or isinstance(value, bool | int | float | str | bytes | bytearray):
        return value
    # Lists that hold each other twice, again and again, are small until they are written out.
    if id(value) not in made:
        made[id(value)] = _plain_container(value, made)
    return made[id(value)]


def _plain_container(value: Any, made: dict[int, Any]) -> Any:
    if isinstance(value, list | tuple):
        # Nearly always a long list of numbers.
        if set(map(type, value)) <= {int, float, bool, str}:
            return value
        return [_plain(item, made) for item in value]
    if isinstance(value, dict):
        return {key: _plain(item, made) for key, item in value.items()}
    raise RefusedPickleError(f"holds a {type(value).__name__}, which is neither a container nor a number")
