"""Arrays that are costly to build, kept in one file each and mapped from there.

A cache is a convenience: without a folder, with one that cannot be written or with damaged files, the arrays are built
as if there were none. Every process may build and write at once; the file appears whole, and all write the same bytes.
"""

import json
import logging
import os
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from mindformers_megatron.errors import ConfigError, DataError
from mindformers_megatron.format.atomic import open_atomically
from mindformers_megatron.format.fingerprint import fingerprint_of
from mindformers_megatron.format.mapping import map_file

Arrays = Mapping[str, npt.NDArray[Any]]

_log = logging.getLogger(__name__)
# Whoever changes the layout of the file changes the number.
_MAGIC = b"mindformers-megatron index cache 1\n"
_ALIGNMENT = 64
_DTYPES = ("<i2", "<i4", "<i8", "<u4")


@dataclass(frozen=True, slots=True, eq=False)
class StoredArrays:
    """Arrays by name, in memory or mapped from a cache file.

    A pickle of mapped ones holds the path, not the arrays.

    Attributes:
        arrays: Read-only arrays.
        path: The file they are mapped from; None where they are in memory.
    """

    arrays: Arrays
    path: Path | None = None

    def __getitem__(self, name: str) -> npt.NDArray[Any]:
        return self.arrays[name]

    def __reduce__(self) -> tuple[Callable[..., "StoredArrays"], tuple[Any, ...]]:
        if self.path is None:
            return StoredArrays, (dict(self.arrays),)
        return _reopen, (self.path,)


def stored_arrays(
    folder: str | os.PathLike[str] | None, kind: str, parameters: Mapping[str, Any], build: Callable[[], Arrays]
) -> StoredArrays:
    """Maps arrays from the cache, or builds them and leaves them there.

    Args:
        folder: Where the cache is; None: there is none, and nothing is written.
        kind: The first part of the file name.
        parameters: All that the arrays depend on, as JSON values. They stand in the file and are compared, so that no
            other arrays are ever taken for these.
        build: Builds the arrays, each of type int16, int32, int64 or uint32.

    Returns:
        The arrays; mapped if there is a folder that can be written.
    """
    if folder is None:
        return _in_memory(build())
    # As it will read when it comes back from the file: lists for tuples.
    key = json.loads(json.dumps({"kind": kind, **parameters}))
    path = Path(folder).absolute() / f"{kind}-{fingerprint_of(key)[:32]}.idxcache"
    try:
        return StoredArrays(_read(path, key), path)
    except FileNotFoundError:
        pass
    except DataError as error:
        _log.warning("%s; the cache is not used and built again", error)
    arrays = build()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _write(path, key, arrays)
        # Mapped, so that the processes of a machine share one copy of it.
        return StoredArrays(_read(path, key, verify=False), path)
    except (OSError, ConfigError, DataError) as error:
        _log.warning("%s: index cache not written, going on without it: %s", path, error)
        return _in_memory(arrays)


def _in_memory(arrays: Arrays) -> StoredArrays:
    for array in arrays.values():
        array.flags.writeable = False
    return StoredArrays(arrays)


def _write(path: Path, key: Mapping[str, Any], arrays: Arrays) -> None:
    layout: list[dict[str, Any]] = []
    offset = checksum = 0
    blocks: list[memoryview] = []
    for name, array in arrays.items():
        data = np.ascontiguousarray(array)
        padding = -data.nbytes % _ALIGNMENT
        layout.append({"name": name, "dtype": data.dtype.str, "shape": list(data.shape), "offset": offset})
        offset += data.nbytes + padding
        blocks += [data.reshape(-1).view(np.uint8).data, memoryview(bytes(padding))]
    for block in blocks:
        checksum = zlib.crc32(block, checksum)
    header = json.dumps({"key": key, "arrays": layout, "bytes": offset, "crc32": checksum}).encode()
    head = _MAGIC + f"{len(header)}\n".encode() + header
    with open_atomically(path) as stream:
        stream.write(head + bytes(-len(head) % _ALIGNMENT))
        for block in blocks:
            stream.write(block)


def _read(path: Path, key: Mapping[str, Any] | None, *, verify: bool = True) -> Arrays:
    """Raises FileNotFoundError where there is no such file, DataError where it is not what was written."""
    if not path.exists():
        raise FileNotFoundError(path)
    data = map_file(path)
    try:
        head = data[: len(_MAGIC) + 20].tobytes()
        if not head.startswith(_MAGIC):
            raise ValueError("another format")
        digits = head[len(_MAGIC) :].split(b"\n", 1)[0]
        start = len(_MAGIC) + len(digits) + 1
        end = start + int(digits)
        header = json.loads(data[start:end].tobytes())
        body = data[end + -end % _ALIGNMENT :]
        if key is not None and header["key"] != key:
            raise ValueError("made from something else")
        if body.size != header["bytes"]:
            raise ValueError(f"{body.size} bytes of arrays, expected {header['bytes']}")
        # The whole of it: a flipped bit in an index would be a wrong sample that nobody notices.
        if verify and zlib.crc32(body.data) != header["crc32"]:
            raise ValueError("wrong checksum")
        return {item["name"]: _array(body, item) for item in header["arrays"]}
    except (ValueError, KeyError, TypeError) as error:
        raise DataError(f"{path}: damaged index cache ({error})") from None


def _array(body: npt.NDArray[np.uint8], item: Mapping[str, Any]) -> npt.NDArray[Any]:
    if item["dtype"] not in _DTYPES:
        raise ValueError(f"array of type {item['dtype']}")
    dtype, shape = np.dtype(item["dtype"]), tuple(item["shape"])
    size = dtype.itemsize
    for extent in shape:
        size *= extent
    return body[item["offset"] : item["offset"] + size].view(dtype).reshape(shape)


def _reopen(path: Path) -> StoredArrays:
    try:
        # Whoever pickled it has read and verified it.
        return StoredArrays(_read(path, None, verify=False), path)
    except FileNotFoundError:
        raise DataError(f"{path}: the index cache was removed while a run uses it; start the run again") from None
