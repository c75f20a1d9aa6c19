"""Megatron order: the samples of one corpus in the very order in which Megatron-core's GPTDataset gives them."""

import hashlib
import os
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from mindformers_megatron.errors import ConfigError, DataError
from mindformers_megatron.format.index import Index
from mindformers_megatron.sampling.index_cache import StoredArrays, stored_arrays
from mindformers_megatron.sampling.megatron_indices import (
    build_document_index,
    build_sample_index,
    build_shuffle_index,
    count_epochs,
)
from mindformers_megatron.sampling.pieces import Pieces, ranges

I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]

_INT32_MAX = 2**31 - 1
_UINT32_MAX = 2**32 - 1


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MegatronOrder:
    """Which tokens are the k-th sample of one corpus, in Megatron's order. It ends: Megatron's has no more samples.

    Attributes:
        index: The corpus's index.
        seq_length: L.
        extra_token: See ``count_epochs``.
        epoch_length: Whole samples in one epoch.
        num_tokens: Tokens in one epoch.
        epochs: Times that the corpus is gone through.
        arrays: ``document_index``, ``sample_index`` and ``shuffle_index``.
    """

    index: Index
    seq_length: int
    extra_token: bool
    epoch_length: int
    num_tokens: int
    epochs: int
    arrays: StoredArrays

    @classmethod
    def build(
        cls,
        index: Index,
        begin: int,
        end: int,
        *,
        num_samples: int | None,
        seq_length: int,
        seed: int,
        extra_token: bool = True,
        drop_last: bool = True,
        cache_dir: str | os.PathLike[str] | None = None,
    ) -> "MegatronOrder":
        """Builds the order, or takes it from the cache.

        The cache is keyed by the lengths of the sequences themselves and by all else that changes the arrays, so that
        it cannot be stale; neither path nor time matters.

        Args:
            index: The corpus's index.
            begin: First sequence of the part that a split gives.
            end: Behind its last one.
            num_samples: Samples wanted, of which there may be more in the end; None: one epoch.
            seq_length: L, at least 2.
            seed: Megatron's ``--seed``.
            extra_token: Megatron's ``add_extra_token_to_sequence``; see ``count_epochs``.
            drop_last: Megatron's ``drop_last_partial_validation_sequence``; False only ever for its validation split.
            cache_dir: Where to keep the arrays; None: in memory only.

        Raises:
            ConfigError: For values out of range, and a corpus too small for a single sample.
            DataError: For lengths that are damaged, or hold no tokens.
        """
        _check_options(index, begin, end, num_samples, seq_length, seed)
        # The lengths stand unaligned in the file, and numpy would copy them anew for each chunk.
        lengths = np.require(index.sequence_lengths[begin:end], dtype=np.int32, requirements=["C", "ALIGNED"])
        tokens = _count_tokens(index, begin, lengths)
        epochs = count_epochs(tokens, num_samples, seq_length=seq_length, extra_token=extra_token, drop_last=drop_last)
        if not epochs.num_samples:
            raise ConfigError(
                f"{index.prefix}: sequences {begin} to {end} hold {tokens} tokens, less than the "
                f"{seq_length + int(extra_token)} of one sample; lower seq_length or take a larger part of the corpus"
            )

        def build_arrays() -> dict[str, npt.NDArray[Any]]:
            # One generator in this order of drawing: documents first, samples behind.
            random = np.random.RandomState(seed)
            documents = build_document_index(begin, end, epochs, random)
            samples = build_sample_index(
                lengths, begin, documents, epochs.num_samples, seq_length=seq_length, extra_token=extra_token
            )
            shuffle = build_shuffle_index(epochs, random)
            return {"document_index": documents, "sample_index": samples, "shuffle_index": shuffle}

        parameters = {
            "lengths": hashlib.sha256(lengths.data).hexdigest() if cache_dir is not None else "",
            "begin": begin,
            "seq_length": seq_length,
            "extra_token": extra_token,
            "seed": seed,
            "epochs": epochs.epochs,
            "num_samples": epochs.num_samples,
            "shuffled_first": epochs.shuffled_first,
        }
        return cls(
            index=index,
            seq_length=seq_length,
            extra_token=extra_token,
            epoch_length=max(1, (tokens - int(extra_token)) // seq_length),
            num_tokens=tokens,
            epochs=epochs.epochs,
            arrays=stored_arrays(cache_dir, "megatron-order", parameters, build_arrays),
        )

    def __len__(self) -> int:
        return int(self.arrays["shuffle_index"].size)

    @property
    def document_index(self) -> I32:
        """int32[D], the sequences in the order of reading."""
        return self.arrays["document_index"]

    @property
    def sample_index(self) -> npt.NDArray[Any]:
        """[n + 1, 2], where samples begin; see ``build_sample_index``."""
        return self.arrays["sample_index"]

    @property
    def shuffle_index(self) -> npt.NDArray[Any]:
        """[n], the order of the samples."""
        return self.arrays["shuffle_index"]

    def pieces(self, cursors: I64) -> Pieces:
        """Returns what the k-th samples of the corpus are made from, 0 ≤ k < n, a piece for each sequence in them.

        Raises:
            IndexError: For a sample beyond the last one.
        """
        if cursors.size and not 0 <= cursors.min() <= cursors.max() < len(self):
            raise IndexError(
                f"{self.index.prefix}: samples {cursors.min()} to {cursors.max()} asked for, Megatron's order has "
                f"{len(self)}"
            )
        extra = int(self.extra_token)
        samples = self.shuffle_index[cursors].astype(np.int64)
        first, skipped = self.sample_index[samples].astype(np.int64).T
        last, taken = self.sample_index[samples + 1].astype(np.int64).T
        count = last - first + 1
        row = np.repeat(np.arange(cursors.size, dtype=np.int64), count)
        sequence = self.document_index[ranges(first, count)]
        length = self.index.sequence_lengths[sequence].astype(np.int64)
        offset = np.zeros_like(length)
        behind = np.cumsum(count)
        offset[behind - count] = skipped
        length[behind - 1] = taken + extra
        length -= offset
        start = self.index.sequence_pointers[sequence] // self.index.dtype.itemsize + offset
        there = length > 0
        row, start, length = row[there], start[there], length[there]
        filled = np.bincount(row, weights=length, minlength=cursors.size).astype(np.int64)
        before = np.cumsum(filled) - filled
        return Pieces(
            row=row,
            column=np.cumsum(length) - length - before[row],
            start=start,
            length=length,
            counted=np.maximum(filled - 1, 0),
        )

    def containing(self, begin: int, end: int, epochs: int) -> I64:
        """Returns the cursors of all samples that hold a token of ``[begin, end)``; there are no epochs to limit."""
        del epochs
        starts = self.index.sequence_pointers[:] // self.index.dtype.itemsize
        lengths = self.index.sequence_lengths[:].astype(np.int64)
        touched = np.zeros(starts.size, dtype=np.bool_)
        touched[(starts < end) & (starts + lengths > begin)] = True
        places = np.flatnonzero(touched[self.document_index])
        bounds = self.sample_index[:, 0].astype(np.int64)
        lowest = np.maximum(np.searchsorted(bounds, places, side="left") - 1, 0)
        highest = np.minimum(np.searchsorted(bounds, places, side="right") - 1, len(self) - 1)
        samples = np.unique(ranges(lowest, np.maximum(highest - lowest + 1, 0)))
        cursors = np.flatnonzero(np.isin(self.shuffle_index, samples))
        # A sample that ends in a touched sequence may end before the tokens asked for.
        pieces = self.pieces(cursors)
        holding = (pieces.start < end) & (pieces.start + pieces.length > begin)
        return cursors[np.unique(pieces.row[holding])]


def _count_tokens(index: Index, begin: int, lengths: I32) -> int:
    shortest = int(lengths.argmin())
    if lengths[shortest] < 0:
        raise DataError(
            f"{index.prefix}.idx: sequence {begin + shortest} has a length of {lengths[shortest]}; the index is damaged"
        )
    tokens = int(lengths.sum(dtype=np.int64))
    if tokens < 2:
        raise DataError(
            f"{index.prefix}: sequences {begin} to {begin + lengths.size} hold {tokens} tokens; Megatron's order needs "
            "at least 2"
        )
    return tokens


def _check_options(index: Index, begin: int, end: int, num_samples: int | None, seq_length: int, seed: int) -> None:
    if not 0 <= begin < end <= min(index.num_sequences, _INT32_MAX):
        raise ConfigError(
            f"{index.prefix}: sequences {begin} to {end} asked for, it has {index.num_sequences} (and Megatron's order "
            f"counts up to {_INT32_MAX})"
        )
    if seq_length < 2:
        raise ConfigError(f"seq_length is {seq_length}; Megatron's order needs at least 2")
    if num_samples is not None and num_samples < 0:
        raise ConfigError(f"num_samples is {num_samples}; expected a whole number ≥ 0, or none for one epoch")
    if not 0 <= seed <= _UINT32_MAX:
        raise ConfigError(f"seed is {seed}; Megatron's order needs a whole number from 0 to {_UINT32_MAX}")
