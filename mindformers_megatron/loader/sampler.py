"""The sampler that gives MindSpore the rows of one rank."""

import numpy as np
import numpy.typing as npt
from mindspore.dataset import Sampler

from mindformers_megatron.sampling.shards import Shard

I64 = npt.NDArray[np.int64]


class StreamSampler(Sampler):  # type: ignore[misc]
    """Gives MindSpore the samples of one rank; its e-th epoch goes on where the one before ended.

    MindSpore asks it once for each epoch of an iterator, those that ``set_init_step`` skips included, so the count of
    calls is the number of the epoch.

    Attributes:
        repeat: Whether every epoch gives the rows of the first one instead, as an evaluation wants.
        start: The sample that the first rank's first row is.
    """

    def __init__(self, shard: Shard, rows: int) -> None:
        """Sets the sampler up to start at sample 0.

        Args:
            shard: The rank's share.
            rows: Rows of one MindSpore epoch on this rank.
        """
        super().__init__(rows)
        self.shard = shard
        self.rows = rows
        self.repeat = False
        self.start = 0
        self.epoch = 0
        self._batch_size = 1

    def give_batches(self, batch_size: int) -> None:
        """Gives no more than the first of ``batch_size`` rows from now on; the rows of an epoch are a multiple."""
        self._batch_size = batch_size
        self.num_samples = self.rows // batch_size

    def get_indices(self) -> I64:
        """The samples of the next epoch, int64[rows]. Whole arrays: MindSpore's own walks an iterator in Python."""
        epoch, self.epoch = self.epoch, self.epoch + (not self.repeat)
        # Of a resumed run, rows that MindSpore skips may lie before sample 0; it never asks for them.
        return self.shard.samples(self.start, epoch * self.rows, self.rows)[:: self._batch_size]
