"""Megatron's samples as the course of a plan: the corpora's orders and the blend over them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from mindformers_megatron.errors import ConfigError
from mindformers_megatron.sampling.corpora import Corpus
from mindformers_megatron.sampling.megatron_blend import MegatronBlend, blend_sizes, mindformers_sizes
from mindformers_megatron.sampling.megatron_order import MegatronOrder
from mindformers_megatron.sampling.spec import PlanSpec
from mindformers_megatron.sampling.splits import parse_split, split_range

I64 = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class MegatronCourse:
    """Which corpus gives sample i, in Megatron's order. It ends, or begins again where it is told to.

    Attributes:
        blend: The blend; None for one corpus without a weight, which Megatron does not blend.
        length: Samples in all.
        repeat_after: Samples after which it begins again at sample 0; None: never.
    """

    blend: MegatronBlend | None
    length: int
    repeat_after: int | None = None

    @property
    def end(self) -> int | None:
        """The number behind the last sample; None: there is none."""
        return self.length if self.repeat_after is None else None

    def repeated_after(self, samples: int | None) -> "MegatronCourse":
        """The same, beginning again after ``samples`` samples.

        Raises:
            ConfigError: It has not as many.
        """
        if samples is not None and samples > self.length:
            raise ConfigError(f"repeat_after is {samples}, and Megatron's order has {self.length} samples")
        return replace(self, repeat_after=samples)

    @property
    def shares(self) -> npt.NDArray[np.float64]:
        """float64[N], the share of each corpus."""
        return np.ones(1) if self.blend is None else self.blend.counts / len(self.blend)

    def locate(self, samples: I64) -> tuple[I64, I64]:
        """int64[B] numbers of samples → (corpus, cursor), int64[B] each; a repeated sample has its first cursor."""
        if self.repeat_after is not None:
            samples = samples % self.repeat_after
        if self.blend is None:
            return np.zeros_like(samples), samples
        return self.blend.locate(samples)

    def samples_of(self, corpus: int, cursors: I64, until: int) -> I64:
        """Returns the numbers, below ``until`` and ascending, of the samples that are the k-th of a corpus."""
        if self.blend is None:
            found = np.sort(cursors)
        else:
            own = np.flatnonzero(self.blend.dataset_index == corpus)
            found = np.sort(own[cursors[cursors < own.size]])
        if self.repeat_after is not None:
            turns = np.arange(-(-until // self.repeat_after), dtype=np.int64) * self.repeat_after
            found = (turns[:, None] + found[found < self.repeat_after]).ravel()
        return found[found < until]

    def cursors(self, sample: int) -> I64:
        """int64[N]: how many samples each corpus has given when sample ``sample`` is next."""
        if self.blend is None:
            return np.array([sample], dtype=np.int64)
        if self.repeat_after is not None and sample > self.repeat_after:
            turns, rest = divmod(sample, self.repeat_after)
            return turns * self.cursors(self.repeat_after) + self.cursors(rest)
        return np.bincount(self.blend.dataset_index[:sample], minlength=self.blend.counts.size)


def megatron_course(spec: PlanSpec, corpora: Sequence[Corpus]) -> tuple[Mapping[str, MegatronOrder], MegatronCourse]:
    """Builds the orders of the corpora, by name, and the course over them.

    ``num_samples`` is what Megatron computes from its training steps: the order of all samples depends on it.

    Raises:
        ConfigError: For weights and sizes that Megatron would stumble over.
        DataError: For damaged indices.
    """
    weights, wanted = spec.dataset_weights, spec.num_samples
    sizes: Sequence[int | None]
    if weights is not None:
        # Without a number of samples, one pass over the tokens of all.
        total = wanted or max(1, sum(corpus.num_tokens for corpus in corpora) // spec.seq_length)
        sizes_of = mindformers_sizes if spec.blend_sizes == "mindformers" else blend_sizes
        used, sizes = sizes_of(weights, total)
    elif len(corpora) == 1:
        sizes = [wanted]
    else:
        sizes = [None] * len(corpora)
    orders = {corpus.name: _order(spec, corpus, size) for corpus, size in zip(corpora, sizes, strict=True)}
    available = [len(order) for order in orders.values()]
    if weights is not None:
        blend = MegatronBlend.of_weights(weights, used, available, cache_dir=spec.cache_dir)
    elif len(corpora) == 1:
        return orders, MegatronCourse(None, available[0]).repeated_after(spec.repeat_after)
    else:
        blend = MegatronBlend.of_sizes(available, wanted, cache_dir=spec.cache_dir)
    return orders, MegatronCourse(blend, len(blend)).repeated_after(spec.repeat_after)


def _order(spec: PlanSpec, corpus: Corpus, num_samples: int | None) -> MegatronOrder:
    sequences = (0, corpus.dataset.num_sequences)
    if spec.split is not None:
        sequences = split_range(parse_split(spec.split), spec.split_part, sequences[1], corpus=corpus.name)
    return MegatronOrder.build(
        corpus.dataset.index,
        *sequences,
        num_samples=num_samples,
        seq_length=spec.seq_length,
        seed=spec.seed,
        extra_token=spec.add_extra_token_to_sequence,
        drop_last=spec.drop_last_partial_validation_sequence or spec.split_part != "valid",
        cache_dir=spec.cache_dir,
    )
