"""The datasets that MindFormers' YAML, MindSpore pipelines and plain Python build: one corpus, or a blend."""

import json
import logging
from collections.abc import Iterator, Sequence
from typing import Any

from mindspore.dataset import GeneratorDataset

from mindformers_megatron.errors import ConfigError
from mindformers_megatron.loader import resume
from mindformers_megatron.loader.sampler import StreamSampler
from mindformers_megatron.loader.source import SampleSource
from mindformers_megatron.loader.stand_in import StandInSource, needs_no_data
from mindformers_megatron.loader.stream import Batch, Cursor, batches
from mindformers_megatron.loader.whole_batches import WholeBatches
from mindformers_megatron.sampling.describe import describe, describe_changes
from mindformers_megatron.sampling.grouped_plan import open_plan
from mindformers_megatron.sampling.plan import SamplePlan
from mindformers_megatron.sampling.resume import Change
from mindformers_megatron.sampling.shards import steps_per_epoch
from mindformers_megatron.sampling.state import DataState
from mindformers_megatron.settings.history import Stretch, differences
from mindformers_megatron.settings.loader_options import LoaderOptions
from mindformers_megatron.settings.model_match import check_model

logger = logging.getLogger(__name__)


class BlendedMegatronDataLoader(GeneratorDataset):  # type: ignore[misc]
    """Samples from a blend of Megatron ``.bin/.idx`` pairs, as a MindSpore dataset of one row per sample.

    ``batch`` takes rows together; it reads whole batches, and leaves MindSpore no work for single rows.

    Rank r of N takes rows r, r + N, … of every global batch, so the samples of a global batch are the same for every
    N. The stream has no end; MindSpore's epochs are stretches of it: a second epoch goes on where the first ended.

    Every iterator over the dataset starts at ``consumed_samples``. In a MindFormers run ``MegatronDataState`` keeps
    that up to date; in a hand-written loop add ``global_batch_size`` to it after each step, or use ``create_iterator``,
    which does so itself.

    Ranks whose data nobody looks at (tensor-parallel peers and middle stages, with MindFormers'
    ``dataset_broadcast_opt_level``) deliver stand-ins of the same shape, and read no sample.

    YAML: ``data_loader: {type: BlendedMegatronDataLoader, dataset_dir: [...], dataset_weights: [...], …}``.
    """

    source: SampleSource

    def __init__(self, dataset_dir: str | Sequence[str], **options: Any) -> None:
        """Opens the corpora; reads a few blocks of each file.

        Args:
            dataset_dir: Paths of the corpora: ``.bin``, ``.idx`` or prefix.
            **options: ``seq_length`` must be given. The plan's options are those of ``PlanSpec`` (``dataset_weights``,
                ``seed``, ``shuffle``, ``num_samples``, …), the loader's own those of ``LoaderOptions``
                (``micro_batch_size``, ``num_parallel_workers``, ``prefetch_size``, …). None stands for "not given".

        Raises:
            ConfigError: One line, for an unknown option (with the nearest right one), a missing one, or a bad value;
                in a MindFormers run also for data that do not fit its model.
            DataError: One line, for a corpus that is missing or damaged.
        """
        self.options = LoaderOptions.from_options({"dataset_dir": dataset_dir, **options}).clamped()
        self.shard = self.options.share
        self.cursor = Cursor()
        plan = self._open(self.options)
        check_model(plan, resume.running_config(), self.options.allow)
        asked = self.options.plan.num_samples
        if asked is not None and asked < self.global_batch_size:
            raise ConfigError(
                f"num_samples is {asked}, fewer than one global batch of {self.global_batch_size} "
                f"({self.options.rows_per_step} rows on {self.shard.ranks} ranks); expected the samples of an epoch"
            )
        workers = self.options.num_parallel_workers
        self.steps_per_epoch = steps_per_epoch(self.options.epoch_of(plan), self.global_batch_size)
        if self.options.repeat_epochs:
            plan = plan.repeated_after(self.steps_per_epoch * self.global_batch_size)
        processes = workers if self.options.python_multiprocessing else 1
        source = SampleSource(plan, stride=self.shard.ranks * processes)
        if needs_no_data():
            logger.info("nothing reads the data of this rank: it delivers stand-ins of their shape")
            source = StandInSource(plan)
        super().__init__(
            source,
            column_names=list(plan.spec.columns),
            sampler=StreamSampler(self.shard, self.steps_per_epoch * self.options.rows_per_step),
            num_parallel_workers=processes,
            python_multiprocessing=self.options.python_multiprocessing,
        )
        self.gives_batches = False
        if self.shard.rank == 0:
            logger.info("%s", describe(plan))

    @staticmethod
    def _open(options: LoaderOptions) -> SamplePlan:
        return open_plan(options.plan, options.share)

    @property
    def plan(self) -> SamplePlan:
        """Which tokens are sample i."""
        return self.source.plan

    @property
    def global_batch_size(self) -> int:
        """Samples of a step, over all ranks."""
        return self.options.rows_per_step * self.shard.ranks

    @property
    def consumed_samples(self) -> int:
        """Samples delivered to steps, over all ranks; those read ahead do not count."""
        return self.cursor.consumed_samples

    @consumed_samples.setter
    def consumed_samples(self, samples: int) -> None:
        self.cursor.consumed_samples = samples

    def batch(
        self, batch_size: Any, drop_remainder: bool = False, num_parallel_workers: int | None = None, **options: Any
    ) -> Any:
        """Takes rows together, as any MindSpore dataset does; here they are read together too.

        What cannot be read so, because a function is to be applied or worker processes read, MindSpore batches itself.

        Args:
            batch_size: Rows of a batch; those of a step (see the option ``batch_size``), or a part of them.
            drop_remainder: As MindSpore says; there is no remainder.
            num_parallel_workers: Threads of MindSpore's own batching.
            **options: Others of MindSpore's ``batch``.
        """
        asked = {name: value for name, value in options.items() if value is not None and value is not False}
        changes = asked not in ({}, {"output_columns": list(self.plan.spec.columns)})
        divides = type(batch_size) is int and batch_size > 0 and self.options.rows_per_step % batch_size == 0
        if changes or not divides or self.num_parallel_workers > 1:
            return super().batch(batch_size, drop_remainder, num_parallel_workers, **options)
        return WholeBatches(self, batch_size, drop_remainder)

    def create_iterator(self) -> Iterator[Batch]:
        """Yields this rank's batches from the cursor on, without end and without MindSpore's pipeline.

        Yields:
            The columns by name as NumPy arrays, ``input_ids`` int32[micro_batch_size, seq_length] among them.
        """
        return batches(
            self.plan,
            self.shard,
            self.cursor,
            batch_size=self.options.micro_batch_size,
            workers=self.options.num_parallel_workers,
            prefetch=self.options.prefetch_size,
        )

    def state_dict(self) -> dict[str, Any]:
        """The cursor, in plain JSON types: the same on every rank, valid for any number of ranks, workers and rows."""
        state: dict[str, Any] = json.loads(self.plan.state(self.consumed_samples).to_json())
        return state

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Makes iterators that are created from now on go on where ``state`` was taken.

        Raises:
            DataError: For what is no state of this program.
            ConfigError: For the state of another plan; names the field and both values.
        """
        self._go_on(DataState.from_json(json.dumps(state)))

    def _go_on(self, state: DataState, changes: Sequence[Change] = ()) -> None:
        plan = self.plan.resumed(state, self.options.on_change)
        if (changes or plan.changes) and self.shard.rank == 0:
            logger.warning("%s", describe_changes(plan, state.consumed_samples, [*changes, *plan.changes]))
        self.source.follow(plan)
        self.consumed_samples = state.consumed_samples

    def first_sample(self, init_step: int, global_batch_size: int) -> int:
        """The sample, over all ranks, that a pipeline reads first.

        The cursor's, where there is one. A run that MindFormers resumes goes on at the data state beside its
        checkpoint, or, where there is none, behind as many samples as the steps it skips.

        Args:
            init_step: Steps that the pipeline has been told to skip.
            global_batch_size: Samples of a step, over all ranks.
        """
        if not init_step or self.consumed_samples:
            return self.consumed_samples
        if init_step not in self.cursor.looked_up:
            self.cursor.looked_up.add(init_step)
            found = resume.find_state(init_step, global_batch_size)
            if found is not None:
                state = found.saved.state
                self.cursor.history = found.saved.history
                sample = state.consumed_samples + found.missing
                now = Stretch(sample, init_step, global_batch_size, self.shard.ranks)
                self._go_on(state, differences(self.cursor.history, now))
                self.consumed_samples = sample
                logger.info("data goes on at sample %d, step %d", self.consumed_samples, init_step)
                return self.consumed_samples
            logger.info(
                "data goes on at sample %d = %d steps of %d",
                init_step * global_batch_size,
                init_step,
                global_batch_size,
            )
        return init_step * global_batch_size

    def pre_parse(self, getter_mode: bool) -> None:
        """Called by MindSpore before ``parse``, with what for: to read, or to find out about the pipeline."""
        super().pre_parse(getter_mode)
        above = self.parent[0]() if self.parent else None
        self.gives_batches = isinstance(above, WholeBatches) and not getter_mode

    def parse(self, children: Any = None) -> Any:
        """Called by MindSpore on the copy of the dataset that a new iterator reads; places the cursor in it.

        This is the last moment before rows are read, in sink mode and with worker processes too, and the first at which
        the steps that MindSpore is going to skip are known. It skips them by row number, so the stream is shifted by
        as many samples: what is read first is the cursor's sample, however many steps are skipped.
        """
        root, batched = _root_of(self)
        if batched not in (None, self.options.rows_per_step):
            raise ConfigError(
                f"the rows are batched by {batched}, the loader counts {self.options.rows_per_step} rows to a step; "
                f"build it with batch_size={batched} (in YAML: data_loader.batch_size)"
            )
        init_step, global_batch_size = root.get_init_step(), (batched or 1) * self.shard.ranks
        self.sampler.start = self.first_sample(init_step, global_batch_size) - init_step * global_batch_size
        if self.gives_batches:
            batch_size = self.parent[0]().batch_size
            self.sampler.give_batches(batch_size)
            self.source = self.source.in_batches(batch_size)
        return super().parse(children)


class MegatronIndexedDataset(BlendedMegatronDataLoader):
    """Samples from one Megatron ``.bin/.idx`` pair; a blend of one, with the same options and promises."""

    @staticmethod
    def _open(options: LoaderOptions) -> SamplePlan:
        if len(options.plan.dataset_dir) > 1:
            raise ConfigError(
                f"MegatronIndexedDataset reads one corpus, dataset_dir lists {len(options.plan.dataset_dir)}; "
                "BlendedMegatronDataLoader blends several"
            )
        return open_plan(options.plan, options.share)


def _root_of(dataset: Any) -> tuple[Any, int | None]:
    """The end of the pipeline that begins with ``dataset``, and the rows in one of its batches; None: not batched."""
    batched = None
    while dataset.parent:
        # MindSpore keeps weak references to what is built upon a dataset.
        above = dataset.parent[0]()
        if above is None:
            break
        dataset = above
        if isinstance(getattr(dataset, "batch_size", None), int):
            batched = (batched or 1) * dataset.batch_size
    return dataset, batched
