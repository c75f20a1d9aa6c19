"""The three index arrays of Megatron-core's GPTDataset, bit for bit.

Megatron repeats and shuffles the corpus's sequences (document index), cuts what that concatenates into samples (sample
index), and shuffles those (shuffle index). See ``gpt_dataset.py`` and ``helpers.cpp`` in
https://github.com/NVIDIA/Megatron-LM/tree/main/megatron/core/datasets.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

I32 = npt.NDArray[np.int32]

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


def _count_with_partial(total: int, seq_length: int) -> int:
    """Samples in ``total`` tokens, the partial one at the end included.

    Megatron divides in float32, which above 2**24 tokens can be off. Its count is followed, since all later draws
    depend on it: samples at the end may be lost, or one come out that has nothing to predict. Where the count is too
    high by more, Megatron aborts; there the true one stands for it.
    """
    rounded = int(np.ceil(np.float32(total) / np.float32(seq_length)))
    whole = total // seq_length
    return rounded if rounded <= whole + 1 else -(-total // seq_length)
