"""The plan: sample i of a run as a pure function of i. Everything else in the training half only reads it."""

from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from dataclasses import replace
from functools import cached_property
from typing import Any, overload

import numpy as np
import numpy.typing as npt

from mindformers_megatron.errors import ConfigError, DataError
from mindformers_megatron.sampling.boundaries import boundary_marks, eod_marks
from mindformers_megatron.sampling.corpora import Corpus, open_corpora
from mindformers_megatron.sampling.identity import identity_of
from mindformers_megatron.sampling.layout import Layout, ReadTokens, Tokens
from mindformers_megatron.sampling.megatron_course import MegatronCourse, megatron_course
from mindformers_megatron.sampling.mix import Mix
from mindformers_megatron.sampling.orders import Order, order_of
from mindformers_megatron.sampling.pieces import Part, Pieces, RowTokens
from mindformers_megatron.sampling.resume import Change, OnChange, check_unchanged, phase_states, resume
from mindformers_megatron.sampling.schedule import Schedule
from mindformers_megatron.sampling.spec import PlanSpec
from mindformers_megatron.sampling.state import CorpusState, DataState
from mindformers_megatron.sampling.table import TableRow, check_epochs

I64 = npt.NDArray[np.int64]
Columns = dict[str, npt.NDArray[np.int32]]


class SamplePlan(Sequence[Columns]):
    """A run's samples: a sequence of dicts of int32 arrays, one row each.

    Sample i depends on the spec, on the files' content and on i, and on nothing else: not on ranks, batches, workers,
    nor on what was read before. A plan may be pickled, forked and shared between threads; opening one reads a few
    blocks of each file.

    Attributes:
        spec: What was asked for.
        names: All corpora of the run, in the order that ``locate`` counts them.
        corpora: The opened corpora by name. A corpus that the run had before it was resumed without it is in
            ``names`` only.
        schedule: The mix over the run.
        changes: (field, before, now) for what a resumed run does otherwise than its state.
        joined_boundaries: Boundaries given up so far because a sample had more segments than ``actual_seq_len`` holds.
    """

    def __init__(self, spec: PlanSpec, state: DataState | None = None, on_change: OnChange = "refuse") -> None:
        """Opens the corpora.

        Args:
            spec: What the plan is asked to be.
            state: The state of the run that this plan goes on with; None: a new run.
            on_change: Whether weights, corpora and skip lists other than the state's are refused, or come into force
                with the state's next sample.

        Raises:
            DataError: For a corpus that is missing or damaged.
            ConfigError: For options that do not fit the corpora, or the state.
        """
        self.spec = spec
        if spec.shard_files is not None:
            raise ConfigError("shard_files divides the plan among groups of ranks; only a training reads such a plan")
        opened = open_corpora(
            spec.dataset_dir,
            spec.dataset_names,
            split=spec.split,
            part=spec.split_part,
            stretches=spec.dataset_ranges,
        )
        self.corpora: Mapping[str, Corpus] = {corpus.name: corpus for corpus in opened}
        self._orders: Mapping[str, Order]
        self._columns = spec.column_options(self._eod_id())
        self._mix = Mix(())
        self._before: Mapping[str, CorpusState] = {}
        self.names: tuple[str, ...] = tuple(self.corpora)
        self.schedule: Schedule | MegatronCourse
        self.changes: tuple[Change, ...] = ()
        if state is not None:
            check_unchanged(state, self._identity(), opened)
            self._before = {corpus.name: corpus for corpus in state.corpora}
        if spec.order == "megatron":
            self._orders, self.schedule = megatron_course(spec, opened)
        else:
            self._orders = {corpus.name: order_of(corpus, spec) for corpus in opened}
            self._mix = Mix.asked(spec, opened, list(self._orders.values()))
            if state is None:
                self.schedule = Schedule(self._mix.phases(self.names))
            else:
                going_on = resume(state, opened, self._mix, on_change)
                self.names, self.schedule, self.changes = going_on.names, Schedule(going_on.phases), going_on.changes
        self.joined_boundaries = 0

    @classmethod
    def build(cls, dataset_dir: str | Sequence[str], **options: Any) -> "SamplePlan":
        """Builds a plan from plain options, named as in YAML; see ``PlanSpec``."""
        return cls(PlanSpec.from_options({"dataset_dir": dataset_dir, **options}))

    def resumed(self, state: DataState, on_change: OnChange = "refuse") -> "SamplePlan":
        """The plan of the run that ``state`` belongs to, under this plan's options; see ``__init__``."""
        return SamplePlan(self.spec, state, on_change)

    def repeated_after(self, samples: int) -> "SamplePlan":
        """This plan, beginning again at sample 0 after ``samples`` samples; for Megatron's order, which else ends."""
        if not isinstance(self.schedule, MegatronCourse):
            raise ConfigError(f"order: {self.spec.order} has no end to begin again after; only Megatron's has")
        other = copy(self)
        other.__dict__.pop("fingerprint", None)
        other.spec = replace(self.spec, repeat_after=samples)
        other.schedule = self.schedule.repeated_after(samples)
        return other

    @property
    def seq_length(self) -> int:
        """L, the inputs of a sample."""
        return self.spec.seq_length

    @cached_property
    def num_samples(self) -> int:
        """Samples in one pass of a training framework over the plan, over all ranks."""
        if isinstance(self.schedule, MegatronCourse):
            return self.schedule.length
        tokens = sum(corpus.num_tokens for corpus in self.corpora.values())
        return self.spec.num_samples or max(1, tokens // self.seq_length)

    @property
    def end(self) -> int | None:
        """Samples in all, which only Megatron's order has an end of; None: the stream has no end."""
        return self.schedule.end if isinstance(self.schedule, MegatronCourse) else None

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
            (corpus, cursor), int64[B] each: the place of the corpus in ``names``, and the how-manieth of its samples
            this is.
        """
        return self.schedule.locate(samples)

    def pieces(self, name: str, cursors: I64) -> Pieces:
        """What the k-th samples of a corpus are made from; see ``Pieces``. The corpus is one of ``corpora``."""
        return self._orders[name].pieces(cursors)

    def epochs(self, name: str, cursors: I64) -> I64:
        """The epochs that the k-th samples of a corpus belong to: int64[B] → int64[B]."""
        return cursors // self._orders[name].epoch_length

    def samples_holding(self, name: str, begin: int, end: int, until: int) -> I64:
        """Finds where tokens were seen.

        Args:
            name: The corpus, one of ``corpora``.
            begin: First token, in its ``.bin``.
            end: Behind the last one.
            until: Samples of the run to look at, from its start.

        Returns:
            The numbers of the samples below ``until`` that hold a token of [begin, end), ascending: int64[K].
        """
        number, order = self.names.index(name), self._orders[name]
        given = int(self.schedule.cursors(until)[number])
        cursors = order.containing(begin, end, -(-given // order.epoch_length))
        return self.schedule.samples_of(number, cursors[cursors < given], until)

    def read(self, samples: I64) -> Columns:
        """Reads samples.

        Args:
            samples: int64[B], numbers of samples, each ≥ 0, in any order; the stream has no end.

        Returns:
            The columns of the spec by name: int32[B, L], but ``attention_mask`` int32[B, 1, L, L] and
            ``actual_seq_len`` int32[B, eod_pad_length]. Some are read-only.
        """
        return self.lay_out(samples).columns()

    def lay_out(self, samples: I64) -> Layout:
        """Prepares the reading of samples row by row, in any order; takes the same samples as ``read``."""
        samples = np.asarray(samples, dtype=np.int64)
        if samples.size and samples.min() < 0:
            raise IndexError(f"sample {samples.min()}: numbers of samples start at 0")
        parts = list(self._parts(samples))
        width, options = self.seq_length + 1, self._columns
        tokens: Tokens
        tokens = pieces = RowTokens(parts, samples.size, width, self.spec.pad_id)
        counted = np.empty(samples.size, dtype=np.int64)
        for part in parts:
            counted[part.rows] = part.pieces.counted
            part.dataset.announce(part.pieces.start, part.pieces.length)
        marks = eods = np.empty(0, dtype=np.int64)
        if options.needs_eod or (options.show_boundaries and self.spec.boundaries == "eod"):
            # What the tokens themselves tell takes reading them before.
            assert options.eod_id is not None
            read = pieces.read(0, samples.size)
            tokens, eods = ReadTokens(read), eod_marks(read, options.eod_id, pieces.filled)
        if options.show_boundaries and self.spec.boundaries == "eod":
            marks = eods
        elif options.show_boundaries and parts:
            found = [boundary_marks(part.dataset.index, part.pieces, part.rows, width) for part in parts]
            marks = np.unique(np.concatenate(found))
        layout = Layout(tokens, marks, eods, counted, options, self.seq_length)
        self.joined_boundaries += layout.joined
        return layout

    def _parts(self, samples: I64) -> Iterator[Part]:
        """What each corpus gives to a batch of samples."""
        numbers, cursors = self.locate(samples)
        for number in np.unique(numbers).tolist():
            name = self.names[number]
            if name not in self.corpora:
                raise DataError(
                    f"sample {samples[numbers == number][0]} came from {name}, which dataset_dir no longer lists"
                )
            rows = np.flatnonzero(numbers == number)
            yield Part(self.corpora[name].dataset, self._orders[name].pieces(cursors[rows]), rows)

    def table(self, samples: int | None = None) -> list[TableRow]:
        """What is in force: a row for each open corpus, over the first ``samples`` samples (None: ``num_samples``)."""
        counts = dict(zip(self.names, self.schedule.cursors(samples or self.num_samples).tolist(), strict=True))
        shares = dict(zip(self.names, self.schedule.shares.tolist(), strict=True))
        weights = self.spec.dataset_weights or (None,) * len(self.corpora)
        return [
            TableRow(
                name=name,
                path=corpus.dataset.prefix,
                tokens=corpus.num_tokens,
                weight=weight,
                share=shares[name],
                samples=counts[name],
                epochs=counts[name] / self._orders[name].epoch_length,
                fingerprint=corpus.fingerprint,
            )
            for (name, corpus), weight in zip(self.corpora.items(), weights, strict=True)
        ]

    def check_epochs(self, samples: int) -> None:
        """Raises ConfigError if ``samples`` samples are more than ``max_epochs``, or Megatron's order, allows."""
        end = self.end
        if end is not None and samples > end:
            raise ConfigError(
                f"the run takes {samples} samples, and Megatron's order has {end}: it ends with the num_samples that "
                "it is built for (in MindFormers' YAML sizes); ask for as many as all epochs take"
            )
        check_epochs(self.spec.max_epochs, self.table(samples), samples)

    @cached_property
    def fingerprint(self) -> str:
        """64 hex digits over all that determines the samples."""
        return self.state(0).fingerprint

    def state(self, consumed_samples: int) -> DataState:
        """The state of this run after ``consumed_samples`` samples, over all ranks."""
        cursors = self.schedule.cursors(consumed_samples).tolist()
        return DataState(
            consumed_samples=consumed_samples,
            plan=self._identity(),
            mix=self._mix.to_plain(),
            corpora=tuple(self._corpus_state(name, cursor) for name, cursor in zip(self.names, cursors, strict=True)),
            phases=phase_states(self.schedule.phases) if isinstance(self.schedule, Schedule) else (),
        )

    def _corpus_state(self, name: str, cursor: int) -> CorpusState:
        if name not in self.corpora:
            # It gives no more samples: it stands where it stood.
            return self._before[name]
        corpus = self.corpora[name]
        return CorpusState(
            name=name,
            fingerprint=corpus.fingerprint,
            tokenizer=corpus.tokenizer,
            epoch=cursor // self._orders[name].epoch_length,
            cursor=cursor,
        )

    def _identity(self) -> dict[str, Any]:
        return identity_of(self.spec, list(self.corpora))

    def _eod_id(self) -> int | None:
        if self.spec.eod_id is not None:
            return self.spec.eod_id
        found = {corpus.eod_id for corpus in self.corpora.values() if corpus.eod_id is not None}
        if len(found) == 1:
            return found.pop()
        if self.spec.boundaries == "eod" or self.spec.loss_mask == "eod":
            told = f"the corpora's metadata name {sorted(found)}" if found else "no corpus has metadata that names it"
            raise ConfigError(f"eod_id is needed for boundaries: eod and loss_mask: eod, and {told}; set eod_id")
        return None
