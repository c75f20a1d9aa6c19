"""The plan: sample i of a run as a pure function of i. Everything else in the training half only reads it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, overload

import numpy as np
import numpy.typing as npt

from mindformers_megatron.errors import ConfigError
from mindformers_megatron.sampling.blend import Blend
from mindformers_megatron.sampling.boundaries import eod_boundaries, mark_boundaries
from mindformers_megatron.sampling.columns import build_columns
from mindformers_megatron.sampling.corpora import Corpus, open_corpora
from mindformers_megatron.sampling.pieces import read_pieces
from mindformers_megatron.sampling.schedule import Schedule, extend
from mindformers_megatron.sampling.shares import integer_parts, sample_weights
from mindformers_megatron.sampling.spec import PlanSpec
from mindformers_megatron.sampling.state import CorpusState, DataState, plan_fingerprint
from mindformers_megatron.sampling.stream_order import StreamOrder

I64 = npt.NDArray[np.int64]
Columns = dict[str, npt.NDArray[np.int32]]


@dataclass(frozen=True, slots=True, kw_only=True)
class TableRow:
    """One corpus in the table that a run prints at its start.

    Attributes:
        name: Its name in the run.
        path: Its prefix.
        tokens: Tokens it holds.
        weight: The weight asked; None where none was given.
        share: The share of samples in force.
        samples: Samples it gives in ``num_samples``.
        epochs: How many times ``num_samples`` goes through it.
        fingerprint: Identity of its content.
    """

    name: str
    path: str
    tokens: int
    weight: float | None
    share: float
    samples: int
    epochs: float
    fingerprint: str


class SamplePlan(Sequence[Columns]):
    """A run's samples: a sequence of dicts of int32 arrays, one row each.

    Sample i depends on the spec, on the files' content and on i, and on nothing else: not on ranks, batches, workers,
    nor on what was read before. A plan may be pickled, forked and shared between threads; opening one reads a few
    blocks of each file.

    Attributes:
        spec: What was asked for.
        corpora: The opened corpora.
        schedule: The mix over the run.
    """

    def __init__(self, spec: PlanSpec) -> None:
        """Opens the corpora.

        Args:
            spec: What the plan is asked to be.

        Raises:
            DataError: For a corpus that is missing or damaged.
            ConfigError: For options that do not fit the corpora.
        """
        self.spec = spec
        self.corpora: tuple[Corpus, ...] = tuple(open_corpora(spec.dataset_dir, spec.dataset_names))
        self._orders = tuple(self._order_of(corpus) for corpus in self.corpora)
        weights = sample_weights(
            spec.dataset_weights,
            [corpus.num_tokens for corpus in self.corpora],
            [corpus.num_tokens / order.epoch_length for corpus, order in zip(self.corpora, self._orders, strict=True)],
            weight_by=spec.weight_by,
            temperature=spec.temperature,
        )
        self.schedule = Schedule(extend((), 0, Blend(integer_parts(weights)), ()))
        self._columns = spec.column_options(self._eod_id())
        self.joined_boundaries = 0

    @classmethod
    def build(cls, dataset_dir: str | Sequence[str], **options: Any) -> "SamplePlan":
        """Builds a plan from plain options, named as in YAML; see ``PlanSpec``."""
        return cls(PlanSpec.from_options({"dataset_dir": dataset_dir, **options}))

    @property
    def seq_length(self) -> int:
        """L, the inputs of a sample."""
        return self.spec.seq_length

    @cached_property
    def num_samples(self) -> int:
        """Samples in one pass of a training framework over the plan, over all ranks."""
        tokens = sum(corpus.num_tokens for corpus in self.corpora)
        return self.spec.num_samples or max(1, tokens // self.seq_length)

    def __len__(self) -> int:
        return self.num_samples

    @overload
    def __getitem__(self, sample: int) -> Columns: ...
    @overload
    def __getitem__(self, sample: slice) -> list[Columns]: ...
    def __getitem__(self, sample: int | slice) -> Columns | list[Columns]:
        if isinstance(sample, slice):
            numbers = range(*sample.indices(len(self)))
            batch = self.read(np.array(numbers, dtype=np.int64))
            return [{name: column[row] for name, column in batch.items()} for row in range(len(numbers))]
        number = int(sample)
        if not -len(self) <= number < len(self):
            raise IndexError(f"sample {number} of a plan of {len(self)}; read() goes beyond, the stream has no end")
        batch = self.read(np.array([number % len(self)], dtype=np.int64))
        return {name: column[0] for name, column in batch.items()}

    def locate(self, samples: I64) -> tuple[I64, I64]:
        """Tells where samples come from.

        Args:
            samples: int64[B], numbers of samples, each ≥ 0; the stream has no end.

        Returns:
            (corpus, cursor), int64[B] each: the place of the corpus in ``corpora``, and the how-manieth of its
            samples this is.
        """
        return self.schedule.locate(samples)

    def read(self, samples: I64) -> Columns:
        """Reads samples.

        Args:
            samples: int64[B], numbers of samples, each ≥ 0, in any order; the stream has no end.

        Returns:
            The columns of the spec by name: int32[B, L], ``attention_mask`` int32[B, 1, L, L], ``actual_seq_len``
            int32[B, eod_pad_length].
        """
        samples = np.asarray(samples, dtype=np.int64)
        if samples.size and samples.min() < 0:
            raise IndexError(f"sample {samples.min()}: numbers of samples start at 0")
        width = self.seq_length + 1
        tokens = np.full((samples.size, width), self.spec.pad_id, dtype=np.int32)
        flags = np.zeros(tokens.shape, dtype=np.bool_)
        counted = np.empty(samples.size, dtype=np.int64)
        corpora, cursors = self.locate(samples)
        for number in np.unique(corpora).tolist():
            rows = np.flatnonzero(corpora == number)
            corpus = self.corpora[number]
            pieces = self._orders[number].pieces(cursors[rows])
            read_pieces(corpus.dataset, pieces, rows, tokens)
            counted[rows] = pieces.counted
            if self.spec.boundaries == "index":
                mark_boundaries(corpus.dataset.index, pieces, rows, flags)
        if self.spec.boundaries == "eod":
            assert self._columns.eod_id is not None
            flags = eod_boundaries(tokens, self._columns.eod_id)
        columns, joined = build_columns(tokens, flags, counted, self._columns)
        self.joined_boundaries += joined
        return columns

    def table(self) -> list[TableRow]:
        """What is in force: a row for each corpus, over ``num_samples`` samples."""
        counts = self.schedule.cursors(self.num_samples)
        shares = self.schedule.phases[-1].blend.shares
        weights = self.spec.dataset_weights or (None,) * len(self.corpora)
        return [
            TableRow(
                name=corpus.name,
                path=corpus.dataset.prefix,
                tokens=corpus.num_tokens,
                weight=weight,
                share=float(share),
                samples=int(count),
                epochs=int(count) / order.epoch_length,
                fingerprint=corpus.fingerprint,
            )
            for corpus, order, weight, share, count in zip(
                self.corpora, self._orders, weights, shares, counts, strict=True
            )
        ]

    @cached_property
    def fingerprint(self) -> str:
        """64 hex digits over all that determines the samples."""
        return self.state(0).fingerprint

    def state(self, consumed_samples: int) -> DataState:
        """The state of a run that has been given ``consumed_samples`` samples, over all ranks."""
        parts = self.schedule.phases[-1].blend.parts.tolist()
        cursors = self.schedule.cursors(consumed_samples).tolist()
        corpora = tuple(
            CorpusState(
                name=corpus.name,
                fingerprint=corpus.fingerprint,
                tokenizer=corpus.tokenizer,
                part=part,
                epoch=cursor // order.epoch_length,
                cursor=cursor,
            )
            for corpus, order, part, cursor in zip(self.corpora, self._orders, parts, cursors, strict=True)
        )
        plan = self._identity()
        return DataState(
            consumed_samples=consumed_samples, plan=plan, corpora=corpora, fingerprint=plan_fingerprint(plan, corpora)
        )

    def check(self, state: DataState) -> None:
        """Raises ConfigError, naming the field and both values, unless ``state`` belongs to this plan."""
        mine = self.state(state.consumed_samples)
        _compare("", state.plan, mine.plan)
        before, now = [corpus.name for corpus in state.corpora], [corpus.name for corpus in mine.corpora]
        if before != now:
            raise _changed("corpora", before, now)
        for then, corpus in zip(state.corpora, mine.corpora, strict=True):
            for field in ("tokenizer", "fingerprint", "part", "cursor"):
                if getattr(then, field) != getattr(corpus, field):
                    raise _changed(f"{field} of {corpus.name}", getattr(then, field), getattr(corpus, field))

    def _order_of(self, corpus: Corpus) -> StreamOrder:
        spec = self.spec
        return StreamOrder(
            begin=corpus.begin,
            num_tokens=corpus.num_tokens,
            seq_length=spec.seq_length,
            stride=spec.stride or spec.seq_length,
            seed=spec.seed,
            name=corpus.name,
            shuffle=spec.shuffle,
            block=spec.shuffle_block_size,
            offsets=spec.epoch_offsets,
        )

    def _identity(self) -> dict[str, Any]:
        spec = self.spec
        identity: dict[str, Any] = {
            "order": "stream",
            "seq_length": spec.seq_length,
            "seed": spec.seed,
            "stride": spec.stride or spec.seq_length,
            "epoch_offsets": spec.epoch_offsets,
            "shuffle": spec.shuffle,
        }
        if spec.shuffle == "block":
            identity["shuffle_block_size"] = spec.shuffle_block_size
        return identity

    def _eod_id(self) -> int | None:
        if self.spec.eod_id is not None:
            return self.spec.eod_id
        found = {corpus.eod_id for corpus in self.corpora if corpus.eod_id is not None}
        if len(found) == 1:
            return found.pop()
        if self.spec.boundaries == "eod" or self.spec.loss_mask == "eod":
            told = f"the corpora's metadata name {sorted(found)}" if found else "no corpus has metadata that names it"
            raise ConfigError(f"eod_id is needed for boundaries: eod and loss_mask: eod, and {told}; set eod_id")
        return None


def _compare(prefix: str, before: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    for name in {**before, **now}:
        if before.get(name) != now.get(name):
            raise _changed(prefix + name, before.get(name), now.get(name))


def _changed(field: str, before: object, now: object) -> ConfigError:
    return ConfigError(
        f"the data state was saved with {field} = {before!r}, this run has {now!r}; other samples would follow, "
        "so resume with the old value, or start a new run"
    )
