"""Stream order: the corpus as a circular stream of tokens, cut anew in every epoch.

Nothing is built and nothing is stored: window *k* of a corpus is a handful of integer operations, whatever the size
of the corpus and however many epochs lie behind.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from mindformers_megatron.sampling.keys import U64, below, derive_key, words_at
from mindformers_megatron.sampling.permutation import permute, unpermute
from mindformers_megatron.sampling.pieces import Pieces, ranges

I64 = npt.NDArray[np.int64]
Shuffle = Literal["true", "false", "block"]


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamOrder:
    """Which tokens are the k-th sample of one corpus.

    Epoch *e* lays windows of ``seq_length + 1`` tokens every ``stride`` tokens from an offset o(e), ``epoch_length`` =
    ceil(num_tokens / stride) of them, and goes through them in a keyed permutation. With stride = seq_length every
    token is an input that counts exactly once per epoch: what the last window takes beyond the end of the circle is
    left out of ``counted``. o(0) = 0, so that the first epoch cuts the corpus from its first token; later offsets are
    drawn from [0, stride).

    Attributes:
        begin: First token of the corpus (of its split) in the ``.bin``.
        num_tokens: T, the tokens of the circle; at least 1.
        seq_length: L.
        stride: Distance of two windows, in tokens.
        seed: The run's seed.
        name: The corpus's name: its stream depends on (seed, name), so that other corpora come and go without
            touching it.
        shuffle: ``true``: all windows of an epoch permuted; ``false``: in file order; ``block``: runs of ``block``
            neighbouring windows permuted, and the windows of a run among themselves, so that reads stay near each
            other.
        block: Windows in a run, for ``shuffle="block"``.
        offsets: Whether epochs after the first start at a drawn offset, or all at 0.
    """

    begin: int
    num_tokens: int
    seq_length: int
    stride: int
    seed: int
    name: str
    shuffle: Shuffle = "true"
    block: int = 1024
    offsets: bool = True

    @property
    def epoch_length(self) -> int:
        """Samples in one epoch: ceil(num_tokens / stride)."""
        return -(-self.num_tokens // self.stride)

    def offset(self, epochs: I64) -> I64:
        """int64[B] → int64[B]: where each epoch's first window starts on the circle."""
        if not self.offsets:
            return np.zeros_like(epochs)
        bound = np.array(min(self.stride, self.num_tokens), dtype=np.uint64)
        drawn = below(words_at(self._key("offset"), epochs.astype(np.uint64)), bound)
        return np.where(epochs == 0, 0, drawn)

    def window(self, cursors: I64) -> tuple[I64, I64]:
        """Returns, for the k-th samples of the corpus, the epoch and the number of the window in it: int64[B] each."""
        epochs, positions = np.divmod(cursors, self.epoch_length)
        if self.shuffle == "false":
            return epochs, positions
        counters = epochs.astype(np.uint64)
        if self.shuffle == "true":
            return epochs, permute(positions, self.epoch_length, words_at(self._key("order"), counters))
        return epochs, self._in_blocks(positions, counters)

    def pieces(self, cursors: I64) -> Pieces:
        """Returns what the k-th samples of the corpus are made from, any k ≥ 0; more than one piece where it wraps."""
        epochs, windows = self.window(cursors)
        first = windows * self.stride
        start = (self.offset(epochs) + first) % self.num_tokens
        width = self.seq_length + 1
        opening = np.minimum(width, self.num_tokens - start)
        # Behind the opening piece the circle is read from its start, as often as a tiny corpus needs.
        turns = -(-(width - opening) // self.num_tokens)
        count = 1 + turns
        row = np.repeat(np.arange(cursors.size, dtype=np.int64), count)
        turn = ranges(np.zeros_like(count), count)
        column = np.where(turn == 0, 0, opening[row] + (turn - 1) * self.num_tokens)
        length = np.where(turn == 0, opening[row], np.minimum(self.num_tokens, width - column))
        return Pieces(
            row=row,
            column=column,
            start=self.begin + np.where(turn == 0, start[row], 0),
            length=length,
            counted=np.minimum(self.seq_length, self.num_tokens - first),
        )

    def containing(self, begin: int, end: int, epochs: int) -> I64:
        """Returns the cursors of the samples of the first ``epochs`` epochs that hold a token of ``[begin, end)``."""
        # What lies in another part of a split is on no circle.
        begin, end = max(begin, self.begin), min(end, self.begin + self.num_tokens)
        if begin >= end:
            return np.empty(0, dtype=np.int64)
        number = np.arange(epochs, dtype=np.int64)
        # Where the tokens lie behind the epoch's first window, along a line that goes on round the circle.
        first = (begin - self.begin - self.offset(number)) % self.num_tokens
        reach = self.epoch_length * self.stride + self.seq_length
        turns = np.arange(-1, -(-reach // self.num_tokens) + 1, dtype=np.int64) * self.num_tokens
        first = first[:, None] + turns
        lowest = np.maximum(-(-(first - self.seq_length) // self.stride), 0)
        highest = np.minimum((first + (end - begin) - 1) // self.stride, self.epoch_length - 1)
        count = np.maximum(highest - lowest + 1, 0)
        windows = ranges(lowest.ravel(), count.ravel())
        epoch = np.repeat(number, count.sum(axis=1))
        cursors = epoch * self.epoch_length + self._positions(windows, epoch)
        return np.unique(cursors)

    def _positions(self, windows: I64, epochs: I64) -> I64:
        """Where in their epochs windows come: the inverse of ``window``."""
        counters = epochs.astype(np.uint64)
        if self.shuffle == "false":
            return windows
        if self.shuffle == "true":
            return unpermute(windows, self.epoch_length, words_at(self._key("order"), counters))
        return self._out_of_blocks(windows, counters)

    def _in_blocks(self, positions: I64, counters: U64) -> I64:
        size, block = self.epoch_length, min(self.block, self.epoch_length)
        run, inside = np.divmod(positions, block)
        # The windows that fill no whole run come last; a drawn rotation sees to it that they are others in every epoch.
        whole = run < size // block
        run[whole] = permute(run[whole], size // block, words_at(self._key("runs"), counters[whole]))
        inside = permute(inside, np.where(whole, block, size % block), self._run_keys(run, counters))
        return (self._rotation(counters) + run * block + inside) % size

    def _out_of_blocks(self, windows: I64, counters: U64) -> I64:
        size, block = self.epoch_length, min(self.block, self.epoch_length)
        run, inside = np.divmod((windows - self._rotation(counters)) % size, block)
        whole = run < size // block
        inside = unpermute(inside, np.where(whole, block, size % block), self._run_keys(run, counters))
        run[whole] = unpermute(run[whole], size // block, words_at(self._key("runs"), counters[whole]))
        return run * block + inside

    def _rotation(self, counters: U64) -> I64:
        bound = np.array(min(self.epoch_length, 2**32 - 1), dtype=np.uint64)
        return below(words_at(self._key("rotation"), counters), bound)

    def _run_keys(self, run: I64, counters: U64) -> U64:
        return words_at(words_at(self._key("inside"), counters), run.astype(np.uint64))

    def _key(self, purpose: str) -> U64:
        return np.array(derive_key("stream", self.seed, self.name, purpose), dtype=np.uint64)
