"""Proof, at the start of a training, that its ranks read one plan and not each other's rows.

Nothing in a training shows that two ranks read the same samples, or that one node has other files than the rest: the
loss falls all the same. So each rank tells the others what it is about to read, as hashes, before the first step.
"""

import hashlib
import logging
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import mindspore
import numpy as np
import numpy.typing as npt
from mindspore import ops
from mindspore.communication import GlobalComm, get_group_size

from mindformers_megatron.errors import ConfigError
from mindformers_megatron.loader.loader import BlendedMegatronDataLoader
from mindformers_megatron.loader.stand_in import StandInSource
from mindformers_megatron.sampling.shards import Shard

logger = logging.getLogger(__name__)

I32 = npt.NDArray[np.int32]
_WORDS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Intent:
    """What one rank is about to read.

    Attributes:
        plan: Hash of the plan, of the columns it is shown in, and of where the run begins; 64 hex digits.
        batch: Hash of the rank's first batch; None: a stand-in.
        shard: Its share.
    """

    plan: str
    batch: str | None
    shard: Shard

    @classmethod
    def of(cls, loader: BlendedMegatronDataLoader, first_sample: int) -> "Intent":
        """What a loader is about to read from a sample on. Reads one batch, past the loader's own source."""
        spec = loader.plan.spec
        shown = (spec.column_options(spec.eod_id), spec.boundaries, spec.pad_id, first_sample, loader.global_batch_size)
        plan = hashlib.sha256(repr((loader.plan.fingerprint, shown)).encode()).hexdigest()
        batch = None
        if not isinstance(loader.source, StandInSource):
            columns = loader.plan.read(loader.shard.samples(first_sample, 0, loader.options.rows_per_step))
            digest = hashlib.sha256()
            for name, column in columns.items():
                digest.update(name.encode() + np.ascontiguousarray(column).tobytes())
            batch = digest.hexdigest()
        return cls(plan=plan, batch=batch, shard=loader.shard)

    def to_words(self) -> I32:
        """int32[19], for ranks to exchange."""
        hashes = bytes.fromhex(self.plan + (self.batch or "0" * 64))
        rest = [self.shard.rank, self.shard.ranks, int(self.batch is not None)]
        return np.concatenate([np.frombuffer(hashes, "<i4"), np.array(rest, "<i4")])

    @classmethod
    def from_words(cls, words: I32) -> "Intent":
        """The reverse of ``to_words``."""
        plan, batch = (words[at : at + _WORDS].astype("<i4").tobytes().hex() for at in (0, _WORDS))
        rank, ranks, reads = (int(word) for word in words[2 * _WORDS :])
        return cls(plan=plan, batch=batch if reads else None, shard=Shard(rank, ranks))


def prove_agreement(loader: BlendedMegatronDataLoader, first_sample: int) -> None:
    """Compares what all ranks are about to read; every rank must call it.

    Does nothing but say so where ranks cannot communicate, or are alone.

    Raises:
        ConfigError: On every rank, one line with the ranks that disagree.
    """
    if not GlobalComm.INITED or get_group_size() == 1:
        logger.info("one process, or no communication: its data are not compared with those of other ranks")
        return
    own = Intent.of(loader, first_sample)
    gathered = ops.AllGather()(mindspore.Tensor(own.to_words()[None])).asnumpy()
    intents = [Intent.from_words(words) for words in gathered]
    tokens = sum(corpus.num_tokens for corpus in loader.plan.corpora.values())
    check_agreement(intents, rows_may_repeat=tokens // loader.plan.seq_length <= loader.global_batch_size)
    logger.info(
        "%d ranks read one data plan (%s) in %d shards, no two of them the same rows",
        *(len(intents), own.plan[:12], own.shard.ranks),
    )


def check_agreement(intents: Sequence[Intent], *, rows_may_repeat: bool = False) -> None:
    """Compares what ranks are about to read.

    Args:
        intents: One for each rank, in order.
        rows_may_repeat: The corpora hold so little that two shards may well be given the same rows.

    Raises:
        ConfigError: One line: other plans, other counts of shards, a shard that no rank takes, ranks of one shard with
            different rows, and ranks of different shards with the same ones.
    """
    by_plan, by_count, by_shard = defaultdict(list), defaultdict(list), defaultdict(list)
    for rank, intent in enumerate(intents):
        by_plan[intent.plan].append(rank)
        by_count[intent.shard.ranks].append(rank)
        by_shard[intent.shard.rank].append(rank)
    if len(by_plan) > 1:
        raise ConfigError(
            f"ranks read different data: {_groups(by_plan)}; expected the same YAML, files and data state on all"
        )
    if len(by_count) > 1:
        raise ConfigError(f"ranks count different numbers of shards: {_groups(by_count)}; expected one number for all")
    missing = [shard for shard in range(intents[0].shard.ranks) if shard not in by_shard]
    if missing:
        raise ConfigError(
            f"no rank takes shard {_listed(missing)} of {intents[0].shard.ranks}: {_groups(by_shard, 'shard')}; "
            "expected every shard to be taken"
        )
    shards_of_batch = defaultdict(list)
    for shard, ranks in by_shard.items():
        batches = defaultdict(list)
        for rank in ranks:
            batch = intents[rank].batch
            if batch is not None:
                batches[batch].append(rank)
        if len(batches) > 1:
            raise ConfigError(
                f"ranks of shard {shard} read different rows: {_groups(batches)}; expected the same files on all nodes"
            )
        for batch in batches:
            shards_of_batch[batch].append(shard)
    for shards in shards_of_batch.values():
        if len(shards) > 1 and not rows_may_repeat:
            ranks = sorted(rank for shard in shards for rank in by_shard[shard])
            raise ConfigError(
                f"ranks {_listed(ranks)} of shards {_listed(shards)} are given the same first batch; expected other "
                "rows in every shard: is a corpus made of copies of one text?"
            )


def _groups(ranks_by: dict[str, list[int]] | dict[int, list[int]], label: str = "") -> str:
    return ", ".join(
        f"{label} {str(value)[:12]} on ranks {_listed(ranks)}".strip() for value, ranks in sorted(ranks_by.items())
    )


def _listed(numbers: Sequence[int]) -> str:
    # A run may have thousands of ranks.
    shown = ", ".join(map(str, numbers[:8]))
    return shown if len(numbers) <= 8 else f"{shown} and {len(numbers) - 8} more"
