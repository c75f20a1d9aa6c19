"""Pickles give their plain data, whoever wrote them, and run nothing."""

import os
import pickle
import pickletools
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mindformers_megatron.format.layouts.unpickling import RefusedPickleError, load_plain

PROTOCOLS = range(pickle.HIGHEST_PROTOCOL + 1)
PLAIN: dict[str, Any] = {
    "sizes": [1, 255, 70_000, 2**40, -3],
    "offsets": np.arange(5),
    "big-endian": np.array([1, 2], ">i4"),
    "fractions": np.array([0.5, 2]),
    "flags": np.array([True]),
    "matrix": np.arange(6, dtype=np.uint8).reshape(2, 3),
    "none": np.array([], np.int64),
    "scalar": np.int32(7),
    "nested": {"a": (1, "two", None), "b": [b"", b"\xff", 1.5]},
}


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_plain_data_comes_back(protocol: int) -> None:
    found = load_plain(pickle.dumps(PLAIN, protocol))
    assert list(found) == list(PLAIN)
    for name, value in PLAIN.items():
        if isinstance(value, np.ndarray):
            np.testing.assert_array_equal(found[name], value)
            assert found[name].dtype == value.dtype
    assert found["sizes"] == PLAIN["sizes"]
    assert found["scalar"] == 7
    assert found["nested"] == {"a": [1, "two", None], "b": [b"", b"\xff", 1.5]}
    assert load_plain(pickle.dumps(OrderedDict(sizes=[1]), protocol)) == {"sizes": [1]}


def test_pickles_of_the_numpy_before_and_since_version_2_come_back() -> None:
    for core in (b"numpy.core", b"numpy._core"):
        data = pickle.dumps({"sizes": np.arange(3)}, 2)
        renamed = data.replace(b"numpy._core", b"numpy.core").replace(b"numpy.core", core)
        assert load_plain(renamed)["sizes"].tolist() == [0, 1, 2]


class Calls:
    """What a hostile pickle is made of: a call of anything."""

    def __init__(self, function: Callable[..., object], *arguments: object) -> None:
        self._call = function, arguments

    def __reduce__(self) -> tuple[Callable[..., object], tuple[object, ...]]:
        return self._call


def hostile(marker: Path) -> dict[str, object]:
    return {
        "a call": Calls(Path.touch, marker),
        "a shell": Calls(os.system, f"touch {marker}"),
        "an evaluation": Calls(eval, f"open({str(marker)!r}, 'w')"),
        "an import": Calls(__import__, "antigravity"),
        "an attribute": Calls(getattr, "x", "upper"),
        "a file": Calls(open, str(marker), "w"),
        "a file of NumPy": Calls(np.memmap, str(marker), "u1", "w+", 0, 8),
        "a load of NumPy": Calls(np.load, str(marker), None, True),
        "an array of objects": np.array([Calls(os.system, f"touch {marker}")], object),
        "a class": Calls,
        "a builtin": len,
        "a set": {1, 2},
        "a frozen set": frozenset({1}),
        "texts in an array": np.array(["a"]),
        "structures in an array": np.zeros(2, [("a", "i4"), ("b", "O")]),
        "times in an array": np.array(["2020"], "M8[Y]"),
        "raw bytes in an array": np.zeros(2, "V8"),
        "a tuple as key": {(1, 2): 3},
        "a complex number": 1j,
        "a path": Path("x"),
    }


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("name", hostile(Path("x")))
@pytest.mark.parametrize("inside", [False, True])
def test_hostile_pickles_are_refused_and_nothing_runs(tmp_path: Path, protocol: int, name: str, inside: bool) -> None:
    marker = tmp_path / "marker"
    content = hostile(marker)[name]
    data = pickle.dumps({"sizes": [content], "offsets": [0]} if inside else content, protocol)
    with pytest.raises(RefusedPickleError) as caught:
        load_plain(data)
    assert "\n" not in str(caught.value)
    assert not marker.exists()


@pytest.mark.parametrize(
    ("program", "said"),
    [
        (b"\x80\x04" + b")" + b"\x85" * 200_000 + b"N\x85.", "objects"),
        (b"\x80\x04}" + b")" + b"\x85" * 90_000 + b"K\x01s.", "tuple as a key"),
        (b"\x80\x04" + b"]" * 90_000 + b"a" * 89_999 + b".", "nested too deeply"),
        (b"\x80\x04" + b"N\x94" * 200_000 + b".", "objects"),
        (b"\x80\x04\x8c\x05numpy\x8c\x05dtype\x93}b.", "changes what it may not"),
        (b"\x80\x04\x8c\x05numpy\x8c\x05dtype\x93)\x81.", "instruction"),
        (b"\x80\x02cnumpy.core.multiarray\n_reconstruct\nN\x85R(K\x01K\x05\x85N\x89C\x00tb.", "numbers"),
        (b"L" + b"9" * 5_000_000 + b"L\n.", "digits"),
        (b"\x80\x04\x8a\x00" + b"\x8b\xff\xff\xff\x7f.", None),
        (b"\x80\x04\x8e" + b"\xff" * 7 + b"\x7f.", None),
        (b"\x80\x04\x95" + b"\xff" * 8 + b".", None),
        (b"\x80\x04\x82\x01.", "instruction"),
        (b"\x80\x04h\x05.", None),
        (b"P1\n.", "instruction"),
        (b"\x80\x04K\x01Q.", "instruction"),
        (b"", None),
        (b"\x80\x04.", None),
    ],
)
def test_programs_that_nobody_writes_but_to_do_harm_are_refused_at_once(program: bytes, said: str | None) -> None:
    with pytest.raises(RefusedPickleError, match=said):
        load_plain(program)


def test_lists_that_hold_each_other_twice_do_not_grow() -> None:
    value: list[Any] = []
    for _ in range(200):
        value = [value, value]
    found = load_plain(pickle.dumps(value))
    assert found[0] is found[1]


def test_a_list_that_holds_itself_is_refused() -> None:
    value: list[Any] = []
    value.append([value])
    with pytest.raises(RefusedPickleError):
        load_plain(pickle.dumps(value))


@given(st.binary(max_size=60), st.integers(0, 400), st.integers(0, 5))
@settings(max_examples=300)
def test_damaged_pickles_are_refused_or_give_plain_data(inserted: bytes, place: int, protocol: int) -> None:
    data = pickle.dumps(PLAIN, protocol)
    place %= len(data)
    try:
        found = load_plain(data[:place] + inserted + data[place + len(inserted) :])
    except RefusedPickleError as error:
        assert "\n" not in str(error)
        return
    assert found is None or isinstance(found, dict | list | tuple | int | float | str | bytes | bytearray | np.ndarray)


def test_every_instruction_is_either_known_to_be_harmless_or_refused() -> None:
    from mindformers_megatron.format.layouts.unpickling import _PlainUnpickler

    every = {opcode.code.encode("latin-1")[0] for opcode in pickletools.opcodes}
    refused = {
        opcode.name
        for opcode in pickletools.opcodes
        if opcode.code.encode("latin-1")[0] in every - set(_PlainUnpickler.dispatch)
    }
    assert refused == {
        *("POP", "DUP", "POP_MARK", "INST", "OBJ", "NEWOBJ", "NEWOBJ_EX", "EXT1", "EXT2", "EXT4", "PERSID"),
        *("BINPERSID", "EMPTY_SET", "ADDITEMS", "FROZENSET", "NEXT_BUFFER", "READONLY_BUFFER"),
    }
