"""Which samples a rank takes: row t of rank r of N is sample ``start + t·N + r``, whatever the batch size.

A global batch of G samples is then ``[s·G, (s+1)·G)`` for every N that divides G: the ranks' rows interleave, and
their union does not depend on N.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mindformers_megatron.errors import ConfigError

I64 = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Shard:
    """The share of one rank.

    Attributes:
        rank: 0 ≤ rank < ranks.
        ranks: Ranks that share the samples.
    """

    rank: int
    ranks: int

    @classmethod
    def of(cls, shard_id: int | None, num_shards: int | None) -> "Shard":
        """The shard that MindSpore's pair of options means; both None: everything."""
        if shard_id is None and num_shards is None:
            return cls(0, 1)
        for name, value in (("shard_id", shard_id), ("num_shards", num_shards)):
            if isinstance(value, bool) or not isinstance(value, int):
                raise ConfigError(f"{name} is {value!r}; expected shard_id and num_shards together, both whole numbers")
        assert shard_id is not None and num_shards is not None
        if not 0 <= shard_id < num_shards:
            raise ConfigError(f"shard_id is {shard_id}, num_shards is {num_shards}; expected 0 ≤ shard_id < num_shards")
        return cls(shard_id, num_shards)

    def samples(self, start: int, first_row: int, rows: int) -> I64:
        """The samples of rows ``first_row`` … ``first_row + rows − 1`` of a stream that starts at ``start``.

        Returns:
            int64[rows].
        """
        return start + self.rank + self.ranks * np.arange(first_row, first_row + rows, dtype=np.int64)


def steps_per_epoch(num_samples: int, global_batch_size: int) -> int:
    """Steps of one MindSpore epoch: as many whole global batches as ``num_samples`` holds, at least one.

    Whole ones, because a part left over at the end of an epoch would shift every later global batch, and by another
    amount for another number of ranks.
    """
    return max(1, num_samples // global_batch_size)
