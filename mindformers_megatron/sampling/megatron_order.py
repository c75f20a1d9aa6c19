"""Megatron order: the samples of one corpus in the very order in which Megatron-core's GPTDataset gives them.

Megatron repeats and shuffles the corpus's sequences (document index), cuts what that concatenates into samples (sample
index), and shuffles those (shuffle index). The three arrays are the same here, bit for bit; see ``gpt_dataset.py`` and
``helpers.cpp`` in https://github.com/NVIDIA/Megatron-LM/tree/main/megatron/core/datasets.
"""

import hashlib
import os
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from mindformers_megatron.errors import ConfigError, DataError
from mindformers_megatron.format.index import Index
from mindformers_megatron.sampling.index_cache import StoredArrays, stored_arrays
from mindformers_megatron.sampling.pieces import Pieces, ranges

I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]

# Below this share of a full epoch, the last one is shuffled apart from those before it.
_SEPARATE_BELOW = 0.80
_INT32_MAX = 2**31 - 1
_UINT32_MAX = 2**32 - 1
# Documents walked at a time: what they need fits the second-level cache.
_CHUNK = 1 << 14


@dataclass(frozen=True, slots=True, kw_only=True)
class MegatronEpochs:
    """How often Megatron goes through a corpus, and how many samples it cuts from that.

    Attributes:
        epochs: Times that every sequence is taken.
        num_samples: Samples cut, at least as many as were asked for.
        shuffled_first: Leading samples that are shuffled among themselves, all but those of the last epoch; equal to
            ``num_samples`` where the last epoch is not kept apart.
        separate_last: Whether the last epoch's documents and samples are shuffled apart from the others.
    """

    epochs: int
    num_samples: int
    shuffled_first: int
    separate_last: bool


def count_epochs(
    tokens: int, num_samples: int | None, *, seq_length: int, extra_token: bool, drop_last: bool
) -> MegatronEpochs:
    """Counts epochs and samples as Megatron does.

    Args:
        tokens: T, tokens in one epoch; at least 1.
        num_samples: N, samples wanted; None: one epoch.
        seq_length: L.
        extra_token: Whether a sample is L + 1 tokens, and shares the last one with the next sample; or L tokens.
        drop_last: Whether tokens at the end that fill no sample are left out.
    """
    extra = int(extra_token)
    wanted = 0 if num_samples is None else num_samples * seq_length + extra
    epochs = max(1, -(-wanted // tokens))
    total = epochs * tokens - extra
    samples = total // seq_length if drop_last else _count_with_partial(total, seq_length)
    if num_samples is None or epochs == 1:
        return MegatronEpochs(epochs=epochs, num_samples=samples, shuffled_first=samples, separate_last=False)
    before_last = (total - tokens) // seq_length
    per_epoch = (tokens - extra) // seq_length
    separate = num_samples - before_last < int(_SEPARATE_BELOW * per_epoch)
    return MegatronEpochs(
        epochs=epochs,
        num_samples=samples,
        shuffled_first=before_last if separate else samples,
        separate_last=separate,
    )


def build_document_index(begin: int, end: int, epochs: MegatronEpochs, random: np.random.RandomState) -> I32:
    """The sequences ``begin`` to ``end``, as often as there are epochs, shuffled: int32[epochs · (end - begin)]."""
    index = np.tile(np.arange(begin, end, dtype=np.int32), epochs.epochs)
    first = index.size - (end - begin if epochs.separate_last else 0)
    random.shuffle(index[:first])
    if epochs.separate_last:
        random.shuffle(index[first:])
    return index


def build_sample_index(
    lengths: I32, begin: int, document_index: I32, num_samples: int, *, seq_length: int, extra_token: bool
) -> npt.NDArray[Any]:
    """Where each sample begins, and the last one ends, in the shuffled sequences.

    Megatron walks along the sequences; sample j ends, though, in the first sequence that reaches token j · L (and one
    more with the extra token), so that a search in the cumulative lengths finds it.

    Args:
        lengths: int32[S], aligned; the lengths of the sequences from ``begin`` on.
        begin: The first sequence that ``lengths`` tells of.
        document_index: int32[D].
        num_samples: n, from ``count_epochs``.
        seq_length: L.
        extra_token: See ``count_epochs``.

    Returns:
        [n + 1, 2], rows (place in ``document_index``, offset in that sequence); int32, or int64 for more than
        2**31 - 1 places. The extra token is not counted in the offsets.
    """
    extra = int(extra_token)
    dtype = np.int32 if document_index.size <= _INT32_MAX else np.int64
    index = np.zeros((num_samples + 1, 2), dtype=dtype)
    done = passed = 0
    for place in range(0, document_index.size, _CHUNK):
        sequences = document_index[place : place + _CHUNK]
        # Every value is in range; of the modes that numpy offers, this one is the fastest by far.
        sizes = lengths.take(sequences - begin if begin else sequences, mode="wrap")
        ends = np.cumsum(sizes, dtype=np.int64)
        reached = min(num_samples, max(0, passed + int(ends[-1]) - extra) // seq_length)
        if reached > done:
            edges = np.arange(done + 1, reached + 1, dtype=np.int64) * seq_length - passed
            found = ends.searchsorted(edges + extra)
            rows = index[done + 1 : reached + 1]
            rows[:, 0] = found + place
            rows[:, 1] = edges - (ends - sizes).take(found)
            done = reached
        passed += int(ends[-1])
    if done < num_samples:
        # The partial sample ends with the last sequence. The offset is -1 where that one is empty and the extra token
        # is the one before it; MindFormers has it so, and it reads right. Megatron stops there with an AssertionError.
        index[num_samples] = document_index.size - 1, int(lengths[document_index[-1] - begin]) - extra
    return index


def build_shuffle_index(epochs: MegatronEpochs, random: np.random.RandomState) -> npt.NDArray[Any]:
    """The order of the samples: a permutation of [0, n), uint32[n], or int64[n] from n = 2**32 - 2 on."""
    count = epochs.num_samples
    index = np.arange(count, dtype=np.uint32 if count < _UINT32_MAX - 1 else np.int64)
    random.shuffle(index[: epochs.shuffled_first])
    if epochs.shuffled_first < count:
        random.shuffle(index[epochs.shuffled_first :])
    return index


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


def _count_with_partial(total: int, seq_length: int) -> int:
    """Samples in ``total`` tokens, the partial one at the end included.

    Megatron divides in float32, which above 2**24 tokens can be off. Its count is followed, since all later draws
    depend on it: samples at the end may be lost, or one come out that has nothing to predict. Where the count is too
    high by more, Megatron aborts; there the true one stands for it.
    """
    rounded = int(np.ceil(np.float32(total) / np.float32(seq_length)))
    whole = total // seq_length
    return rounded if rounded <= whole + 1 else -(-total // seq_length)


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
