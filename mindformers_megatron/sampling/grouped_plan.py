"""The plan of a run whose files are divided among groups of ranks: ``shard_files``."""

from collections.abc import Collection, Iterator, Mapping
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property
from math import gcd
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from mindformers_megatron.errors import DataError
from mindformers_megatron.format.paths import bin_path, idx_path, prefix_of
from mindformers_megatron.sampling.blend import Blend
from mindformers_megatron.sampling.corpora import Corpus, corpus_names
from mindformers_megatron.sampling.file_groups import share_files
from mindformers_megatron.sampling.layout import Layout
from mindformers_megatron.sampling.pieces import Part
from mindformers_megatron.sampling.plan import SamplePlan
from mindformers_megatron.sampling.resume import OnChange, check_unchanged
from mindformers_megatron.sampling.shards import Shard
from mindformers_megatron.sampling.shares import integer_parts, sample_weights
from mindformers_megatron.sampling.spec import PlanSpec
from mindformers_megatron.sampling.state import DataState
from mindformers_megatron.sampling.table import TableRow

I64 = npt.NDArray[np.int64]


def open_plan(spec: PlanSpec, shard: Shard | None = None) -> SamplePlan:
    """Opens the plan of a run, and of its files those that a rank reads.

    Args:
        spec: What the plan is asked to be.
        shard: The rank's share; None: whatever is read is opened when it is.

    Raises:
        DataError: For a corpus that is missing or damaged.
        ConfigError: For options that do not fit the corpora.
    """
    if spec.shard_files is None:
        return SamplePlan(spec)
    plan = GroupedPlan(spec)
    if shard is not None:
        # A rank's samples lie ``ranks`` apart, and those of a group ``groups``.
        step = gcd(shard.ranks, spec.shard_files)
        plan.open(range(shard.rank % step, spec.shard_files, step))
    return plan


@dataclass(frozen=True, slots=True)
class Turn:
    """What one group gives of a stretch of the run.

    Attributes:
        members: int64[M], its corpora by their places in the plan.
        blend: Over them.
        first: Its own sample that is the first of the stretch.
        behind: Behind its last one.
        plan: The group's plan; None where it is not open.
    """

    members: I64
    blend: Blend
    first: int
    behind: int
    plan: SamplePlan | None


class GroupedPlan(SamplePlan):
    """A plan in which sample i comes from the files of group i mod G, as the (i div G)-th sample of that group.

    It depends on the spec, which G belongs to, and on i, as every plan does: any number of ranks may read it, and G
    ranks, or a multiple of them, open one group's files each. A group is opened when the first of its samples is read.

    What the other plans have and this one has not: its state knows files by name and size only, since no rank has read
    them all; weights, corpora and G cannot change in mid-run; ``dataset_weights`` and ``num_samples`` must be given,
    because counting tokens would take opening every file.
    """

    def __init__(self, spec: PlanSpec) -> None:
        """Opens no file.

        Raises:
            ConfigError: For options that ``shard_files`` does not go with.
            DataError: For a file that is missing.
        """
        assert spec.shard_files is not None and spec.dataset_weights is not None
        self.spec = spec
        self.groups = spec.shard_files
        prefixes = [prefix_of(path) for path in spec.dataset_dir]
        self.names = tuple(corpus_names(prefixes, spec.dataset_names))
        nothing = [0] * len(prefixes)
        asked = sample_weights(spec.dataset_weights, nothing, nothing, temperature=spec.temperature)
        shares = share_files(integer_parts(asked).tolist(), self.groups)
        self._members = [np.array([share.corpus for share in group], dtype=np.int64) for group in shares]
        self._specs = [
            replace(
                spec,
                shard_files=None,
                dataset_dir=tuple(prefixes[share.corpus] for share in group),
                dataset_names=tuple(self.names[share.corpus] for share in group),
                dataset_weights=tuple(share.parts for share in group),
                dataset_ranges=tuple((float(share.begin), float(share.end)) for share in group),
                temperature=1.0,
            )
            for group in shares
        ]
        self._blends = [
            Blend(integer_parts(sample_weights(group.dataset_weights, nothing, nothing))) for group in self._specs
        ]
        self._sizes = {name: _sizes(prefix) for name, prefix in zip(self.names, prefixes, strict=True)}
        self._open: dict[int, SamplePlan] = {}
        self.changes = ()
        self.joined_boundaries = 0

    def open(self, groups: Collection[int]) -> None:
        """Opens the files of groups."""
        for group in groups:
            if group not in self._open:
                self._open[group] = SamplePlan(self._specs[group])
        self._columns = self.spec.column_options(self._eod_id())

    def turns(self, begin: int, end: int) -> Iterator["Turn"]:
        """What each group gives of samples ``begin`` to ``end - 1``; opens nothing."""
        for group, (members, blend) in enumerate(zip(self._members, self._blends, strict=True)):
            first, behind = ((sample - group + self.groups - 1) // self.groups for sample in (begin, end))
            yield Turn(members, blend, first, behind, self._open.get(group))

    def group_of(self, sample: int) -> SamplePlan:
        """The plan of the group that a sample comes from, opened; it is sample i div G there."""
        return self._group(sample % self.groups)

    def _group(self, group: int) -> SamplePlan:
        self.open([group])
        return self._open[group]

    def samples_holding(self, name: str, begin: int, end: int, until: int) -> I64:
        """Finds where tokens were seen, as ``SamplePlan.samples_holding`` does; opens the groups that read the corpus.

        Args:
            name: The corpus, one of ``names``.
            begin: First token, in its ``.bin``.
            end: Behind the last one.
            until: Samples of the run to look at, from its start.
        """
        found = [np.empty(0, dtype=np.int64)]
        for group, members in enumerate(self._members):
            if self.names.index(name) in members:
                count = (until - group + self.groups - 1) // self.groups
                found.append(self._group(group).samples_holding(name, begin, end, count) * self.groups + group)
        return np.sort(np.concatenate(found))

    @property
    def corpora(self) -> Mapping[str, Corpus]:  # type: ignore[override]
        """The corpora of the groups that are open, by name."""
        return {name: corpus for plan in self._open.values() for name, corpus in plan.corpora.items()}

    @cached_property
    def num_samples(self) -> int:
        """Samples in one pass of a training framework over the plan, over all ranks."""
        assert self.spec.num_samples is not None
        return self.spec.num_samples

    @property
    def end(self) -> int | None:
        """There is none."""
        return None

    def locate(self, samples: I64) -> tuple[I64, I64]:
        """Tells where samples come from, without opening anything.

        Args:
            samples: int64[B], numbers of samples, each ≥ 0.

        Returns:
            (corpus, cursor), int64[B] each: the place of the corpus in ``names``, and the how-manieth of the samples
            that the sample's group takes from it.
        """
        samples = np.asarray(samples, dtype=np.int64)
        corpus, cursor = np.empty_like(samples), np.empty_like(samples)
        for group in np.unique(samples % self.groups).tolist():
            rows = samples % self.groups == group
            member, cursor[rows] = self._blends[group].locate(samples[rows] // self.groups)
            corpus[rows] = self._members[group][member]
        return corpus, cursor

    def lay_out(self, samples: I64) -> Layout:
        """Prepares the reading of samples, as ``SamplePlan.lay_out`` does; opens their groups if they are not open."""
        self.open(np.unique(np.asarray(samples, dtype=np.int64) % self.groups).tolist() or [0])
        return super().lay_out(samples)

    def _parts(self, samples: I64) -> Iterator[Part]:
        for group in np.unique(samples % self.groups).tolist():
            rows = np.flatnonzero(samples % self.groups == group)
            for part in self._open[group]._parts(samples[rows] // self.groups):
                yield replace(part, rows=rows[part.rows])

    def table(self, samples: int | None = None) -> list[TableRow]:
        """What is in force in the groups that are open: a row for each of their corpora, shares being those of all."""
        # The groups take turns, so that the first ones may be a sample ahead.
        counts = [((samples or self.num_samples) - group + self.groups - 1) // self.groups for group in self._open]
        return [
            replace(row, share=row.share / self.groups)
            for plan, count in zip(self._open.values(), counts, strict=True)
            for row in plan.table(count)
        ]

    def state(self, consumed_samples: int) -> DataState:
        """The state of this run after ``consumed_samples`` samples, over all ranks: the same on every rank."""
        return DataState(
            consumed_samples=consumed_samples,
            plan=self._identity(),
            mix={"steps": [], "skip_samples": []},
            corpora=(),
            phases=(),
        )

    def resumed(self, state: DataState, on_change: OnChange = "refuse") -> SamplePlan:
        """This plan, if ``state`` is one of it.

        Raises:
            ConfigError: Something has changed, which this plan can never take.
        """
        check_unchanged(state, self._identity(), ())
        return copy(self)

    def _identity(self) -> dict[str, Any]:
        assert self.spec.dataset_weights is not None
        return {
            **super()._identity(),
            "shard_files": self.groups,
            "dataset_weights": list(self.spec.dataset_weights),
            "temperature": self.spec.temperature,
            "files": self._sizes,
        }


def _sizes(prefix: str) -> list[int]:
    sizes = []
    for path in (bin_path(prefix), idx_path(prefix)):
        try:
            sizes.append(Path(path).stat().st_size)
        except OSError as error:
            raise DataError(f"{path}: cannot be read ({error.strerror}); expected both files of each corpus") from None
    return sizes
