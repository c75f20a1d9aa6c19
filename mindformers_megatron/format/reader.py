"""Reading the tokens of a pair."""

import os
from collections.abc import Iterator
from operator import index as as_int
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from mindformers_megatron.errors import DataError
from mindformers_megatron.format.index import Index, read_index
from mindformers_megatron.format.mapping import announce, map_file
from mindformers_megatron.format.paths import bin_path
from mindformers_megatron.format.positioned import PositionedFile


class IndexedDataset:
    """A pair, open for reading. Opening takes the same time whatever its size.

    Arrays come in the type of the file and are not writable. With ``mmap=True`` they are views of the mapped file,
    which stay valid after the dataset is gone; a file that is cut short while mapped kills the process (SIGBUS), as
    with any mapped file. With ``mmap=False`` every read copies exactly what was asked for and notices a file that got
    shorter.

    May be pickled (the files are opened again), inherited by forked processes and read by several threads at once.

    Args:
        prefix: the prefix, the ``.bin`` or the ``.idx``.
        mmap: map the ``.bin``, or read it piece by piece. The ``.idx`` is mapped in both cases.
        multimodal: the index ends in one mode per sequence (``index.sequence_modes``).

    Raises:
        DataError: see ``read_index``.
    """

    def __init__(self, prefix: str | os.PathLike[str], *, mmap: bool = True, multimodal: bool = False) -> None:
        self._index = read_index(prefix, multimodal=multimodal)
        self._mmap = mmap
        self._num_tokens = self._index.num_tokens
        self._itemsize = self._index.dtype.itemsize
        path = bin_path(self._index.prefix)
        if mmap:
            data = map_file(path)
            if data.size != self._num_tokens * self._itemsize:
                raise DataError(
                    f"{path}: changed from {self._num_tokens * self._itemsize} to {data.size} bytes while opened"
                )
            self._source: NDArray[Any] | PositionedFile = data.view(self._index.dtype)
            self._bytes = data.data
        else:
            self._source = PositionedFile(path)

    @property
    def prefix(self) -> str:
        """Path of the pair without suffix."""
        return self._index.prefix

    @property
    def index(self) -> Index:
        """The index arrays."""
        return self._index

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the tokens."""
        return self._index.dtype

    @property
    def num_sequences(self) -> int:
        """Sequences, as ``len``."""
        return self._index.num_sequences

    @property
    def num_documents(self) -> int:
        """Documents, empty ones included."""
        return self._index.num_documents

    @property
    def num_tokens(self) -> int:
        """Tokens in ``.bin``."""
        return self._num_tokens

    def __len__(self) -> int:
        return self._index.num_sequences

    def __repr__(self) -> str:
        counts = f"{self.num_documents} documents, {self.num_sequences} sequences, {self.num_tokens} tokens"
        return f"IndexedDataset({self.prefix!r}, {self.dtype.name}, {counts})"

    @overload
    def __getitem__(self, i: int) -> NDArray[Any]: ...
    @overload
    def __getitem__(self, i: slice) -> list[NDArray[Any]]: ...
    def __getitem__(self, i: int | slice) -> NDArray[Any] | list[NDArray[Any]]:
        """One sequence, or the list of those in a slice.

        Raises:
            IndexError: no such sequence.
            DataError: the index points outside the ``.bin``.
        """
        if isinstance(i, slice):
            return [self.get(k) for k in range(*i.indices(len(self)))]
        return self.get(i)

    def __iter__(self) -> Iterator[NDArray[Any]]:
        return (self.get(i) for i in range(len(self)))

    def get(self, i: int, offset: int = 0, length: int | None = None) -> NDArray[Any]:
        """Part of one sequence.

        Args:
            i: the sequence; negative from the end.
            offset: tokens to leave out at its start.
            length: tokens to return; None is up to its end.

        Raises:
            IndexError: no such sequence, or not that many tokens in it.
            DataError: the index points outside the ``.bin``.
        """
        size = len(self)
        sequence = as_int(i)
        if not -size <= sequence < size:
            raise IndexError(f"{self.prefix}: sequence {sequence} of {size}")
        sequence %= size
        start, total = self._extent(sequence)
        wanted = total - offset if length is None else length
        if offset < 0 or wanted < 0 or offset + wanted > total:
            raise IndexError(
                f"{self.prefix}: sequence {sequence} has {total} tokens, asked for {wanted} from {offset} on"
            )
        return self.tokens(start + offset, wanted)

    def tokens(self, start: int, count: int) -> NDArray[Any]:
        """``count`` tokens of the stream from ``start`` on, across documents; no wrap-around at the end.

        Raises:
            IndexError: not that many tokens.
            DataError: the ``.bin`` got shorter since it was opened (``mmap=False`` only).
        """
        stop = start + count
        if start < 0 or count < 0 or stop > self._num_tokens:
            raise IndexError(f"{self.prefix}: tokens {start} to {stop} of {self._num_tokens}")
        source = self._source
        if isinstance(source, np.ndarray):
            return source[start:stop]
        data = source.read(int(start) * self._itemsize, int(count) * self._itemsize)
        return data.view(self._index.dtype)

    def read_into(self, start: int, count: int, out: memoryview) -> None:
        """Copies tokens, as they are in the file.

        Args:
            start: the first.
            count: how many.
            out: as many bytes, of format B.

        Raises: see ``tokens``.
        """
        stop = start + count
        if start < 0 or count < 0 or stop > self._num_tokens:
            raise IndexError(f"{self.prefix}: tokens {start} to {stop} of {self._num_tokens}")
        if isinstance(self._source, np.ndarray):
            out[:] = self._bytes[start * self._itemsize : stop * self._itemsize]
        else:
            self._source.read_into(start * self._itemsize, out)

    def announce(self, start: NDArray[np.int64], count: NDArray[np.int64]) -> None:
        """Tells the system which tokens will be read soon.

        Announcing many reads before the first one lets slow storage answer them together: a dozen times as fast as one
        after the other. Costs about a microsecond for each that is in memory already.

        Args:
            start: int64[K], the first token of each stretch.
            count: int64[K], its tokens, at least 1.
        """
        begin, size = start * self._itemsize, count * self._itemsize
        if isinstance(self._source, np.ndarray):
            announce(self._source, begin, size)
        else:
            self._source.announce(begin, size)

    def _extent(self, sequence: int) -> tuple[int, int]:
        """First token and length of a sequence, checked: opening saw only the first and the last one."""
        pointer = int(self._index.sequence_pointers[sequence])
        length = int(self._index.sequence_lengths[sequence])
        start, rest = divmod(pointer, self._itemsize)
        if rest or start < 0 or length < 0 or start + length > self._num_tokens:
            raise DataError(
                f"{self.prefix}.idx: sequence {sequence} is {length} tokens at byte {pointer}, which does not "
                f"fit the {self._num_tokens} tokens of {self._itemsize} bytes in the .bin; the index is damaged"
            )
        return start, length

    def __getstate__(self) -> dict[str, Any]:
        return {
            "prefix": self.prefix,
            "mmap": self._mmap,
            "multimodal": self._index.sequence_modes is not None,
            "counts": (self.num_documents, self.num_sequences, self.num_tokens),
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["prefix"], mmap=state["mmap"], multimodal=state["multimodal"])  # type: ignore[misc]
        counts = (self.num_documents, self.num_sequences, self.num_tokens)
        if counts != state["counts"]:
            raise DataError(
                f"{self.prefix}: has (documents, sequences, tokens) = {counts}, was sent here as {state['counts']}: "
                "do not overwrite a pair that is in use"
            )
