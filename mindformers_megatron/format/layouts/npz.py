"""A NumPy archive as index: ``sizes``, ``offsets`` and ``total``, usually called ``<prefix>.idx.npz``.

An archive of a kilobyte can hold a gigabyte of zeros. So the shapes that its members declare are compared with the size
of the ``.bin`` before anything is decompressed.
"""

import zipfile
from pathlib import Path
from typing import IO, Any, BinaryIO

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from mindformers_megatron.errors import DataError
from mindformers_megatron.format.layouts.foreign import MOST_DOCUMENTS, ForeignPair, check_lengths, token_type
from mindformers_megatron.format.paths import bin_path, idx_path

NAME = "NumPy .npz"
_MOST_MEMBERS = 64
# NumPy pads the header of an array to 64 bytes.
_HEADER_BYTES = 1 << 12


def npz_path(prefix: str) -> Path:
    """Where the index is: ``numpy.savez`` appends its own suffix to a name."""
    path = Path(f"{prefix}.idx.npz")
    return path if path.exists() else idx_path(prefix)


def read_npz(prefix: str, dtype: np.dtype[Any] | None = None) -> ForeignPair:
    """Opens a pair of this layout. No pickle in it is loaded.

    Args:
        prefix: of the pair.
        dtype: of the tokens; None: by the size of the ``.bin``.

    Raises:
        DataError: the archive is damaged, holds anything but numbers, declares more documents than the ``.bin`` has
            bytes, or does not fit it.
    """
    path = npz_path(prefix)
    try:
        room = bin_path(prefix).stat().st_size
        with zipfile.ZipFile(path) as archive:
            if len(archive.infolist()) > _MOST_MEMBERS:
                raise DataError(f"{path}: {len(archive.infolist())} members, expected sizes, offsets and total")
            arrays = {name: _array(archive, path, name, room) for name in ("sizes", "offsets", "total")}
    except OSError as error:
        raise DataError(f"{path}: cannot be opened: {error.strerror or error}") from None
    except DataError:
        raise
    # A damaged archive makes zipfile fail in more ways than it documents.
    except Exception as error:
        raise DataError(f"{path}: is a damaged archive: {' '.join(str(error).split())}") from None
    sizes, offsets = arrays["sizes"], arrays["offsets"]
    if sizes is None:
        raise DataError(f"{path}: has no sizes; expected an archive with sizes, offsets and total")
    total = check_lengths(path, sizes, offsets, unit="document")
    stated = arrays["total"]
    if stated is not None and (stated.size != 1 or int(stated.ravel()[0]) != total):
        raise DataError(f"{path}: total is {stated.ravel()[:4].tolist()}, but the sizes add up to {total:,}")
    return ForeignPair(NAME, bin_path(prefix), token_type(bin_path(prefix), total, dtype), sizes)


def write_npz(file: BinaryIO, sizes: NDArray[np.int64]) -> None:
    """Writes an index of this layout.

    Args:
        file: what to write to.
        sizes: int64[N], tokens of each document.
    """
    offsets = np.cumsum(sizes) - sizes
    np.savez_compressed(file, sizes=sizes.astype(np.int32), offsets=offsets, total=np.int64(sizes.sum()))


def _array(archive: zipfile.ZipFile, path: Path, name: str, room: int) -> NDArray[Any] | None:
    try:
        member = archive.getinfo(f"{name}.npy")
    except KeyError:
        return None
    if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise DataError(f"{path}: {name} is compressed in another way than NumPy does")
    with archive.open(member) as file:
        shape, dtype = _declared(file, path, name)
        count = int(np.prod(shape, dtype=object))
        declared = count * dtype.itemsize
        if not 0 <= count <= min(room, MOST_DOCUMENTS) + 1 or abs(member.file_size - declared) > _HEADER_BYTES:
            raise DataError(
                f"{path}: {name} declares {count:,} numbers and unpacks to {member.file_size:,} bytes, but the .bin "
                f"has {room:,} bytes; nothing was unpacked"
            )
        data = file.read(declared)
        # Reading on is what makes the archive compare its checksum.
        rest = file.read(1)
    if len(data) != declared or rest:
        raise DataError(f"{path}: {name} has not the {declared:,} bytes that it declares")
    return np.frombuffer(data, dtype).reshape(shape)


def _declared(file: IO[bytes], path: Path, name: str) -> tuple[tuple[int, ...], np.dtype[Any]]:
    try:
        version = npy.read_magic(file)  # type: ignore[no-untyped-call]
        read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
        shape, _, dtype = read(file)  # type: ignore[no-untyped-call]
    # NumPy parses the header as Python, which fails in many ways.
    except Exception as error:
        raise DataError(f"{path}: {name} is no array: {str(error).partition(chr(10))[0]}") from None
    if dtype.kind not in "iu" or len(shape) > 1:
        raise DataError(f"{path}: {name} is {dtype} of shape {shape}, expected integers in a row")
    return shape, dtype
