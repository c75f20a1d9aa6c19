"""Stream order: the corpus as a circular stream of tokens, cut anew in every epoch.

Nothing is built and nothing is stored: window *k* of a corpus is a handful of integer operations, whatever the size
of the corpus and however many epochs lie behind.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from mindformers_megatron.sampling.keys import U64, below, derive_key, words_at
from mindformers_megatron.sampling.permutation import permute
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

    def _in_blocks(self, positions: I64, counters: U64) -> I64:
        size = self.epoch_length
        block = min(self.block, size)
        full = size // block
        # The windows that fill no whole run come last; a drawn rotation sees to it that they are others in every epoch.
        rotation = below(words_at(self._key("rotation"), counters), np.array(min(size, 2**32 - 1), dtype=np.uint64))
        run, inside = np.divmod(positions, block)
        whole = run < full
        run[whole] = permute(run[whole], full, words_at(self._key("runs"), counters[whole]))
        keys = words_at(words_at(self._key("inside"), counters), run.astype(np.uint64))
        inside[whole] = permute(inside[whole], block, keys[whole])
        rest = size - full * block
        if rest and not whole.all():
            inside[~whole] = permute(inside[~whole], rest, keys[~whole])
        return (rotation + run * block + inside) % size

    def _key(self, purpose: str) -> U64:
        return np.array(derive_key("stream", self.seed, self.name, purpose), dtype=np.uint64)
