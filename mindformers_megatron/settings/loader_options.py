"""The options of a loader, as they come from YAML and from MindFormers: checked, and told apart from the plan's."""

import logging
import os
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, get_args

from mindformers_megatron.errors import ConfigError, unknown_option
from mindformers_megatron.sampling.columns import DEFAULT_COLUMNS
from mindformers_megatron.sampling.plan import SamplePlan
from mindformers_megatron.sampling.resume import OnChange
from mindformers_megatron.sampling.shards import Shard
from mindformers_megatron.sampling.spec import PlanSpec
from mindformers_megatron.settings.builtin_options import from_builtin, is_builtin
from mindformers_megatron.settings.model_match import check_names

logger = logging.getLogger(__name__)

# MindFormers looks at these names too: the first makes it take the last column of a batch for actual_seq_len.
MASK_COLUMNS = {"create_compressed_eod_mask": "actual_seq_len", "create_attention_mask": "attention_mask"}


@dataclass(frozen=True, slots=True, kw_only=True)
class LoaderOptions:
    """What a loader is asked to be, beside the plan of its samples.

    Attributes:
        plan: Which tokens are sample i.
        micro_batch_size: Rows in a batch of ``create_iterator``.
        batch_size: Rows that a step takes on this rank; MindFormers passes it. None: ``micro_batch_size``.
        num_parallel_workers: Threads of ``create_iterator``; processes of MindSpore's pipeline, with
            ``python_multiprocessing``. Without it the pipeline is read by one thread: several would take turns with it
            for the interpreter's lock, and give a fifth of the rows.
        prefetch_size: Batches that ``create_iterator`` reads ahead.
        python_multiprocessing: Whether MindSpore reads in processes of its own.
        num_shards: Ranks that share the samples; None: one. MindFormers passes its own over what the YAML says.
        shard_id: The rank among them; None with ``num_shards`` None.
        shard: Which share this process takes, whatever ``shard_id`` and ``num_shards`` are: ``[shard_id, num_shards]``,
            or ``environment``, which reads RANK_ID and RANK_SIZE.
        on_change: Whether a run that is resumed with other weights, corpora or skip lists is refused, or goes on with
            the new ones (``continue``).
        repeat_epochs: Whether each MindSpore epoch gives the samples of the first one again, as MindFormers' own loader
            does; for ``order: megatron``, which otherwise ends.
        allow: Mismatches of data and model that are no errors; see ``model_match.CHECKS``.
    """

    plan: PlanSpec
    micro_batch_size: int = 1
    batch_size: int | None = None
    num_parallel_workers: int = 1
    prefetch_size: int = 16
    python_multiprocessing: bool = False
    num_shards: int | None = None
    shard_id: int | None = None
    shard: Shard | None = None
    on_change: OnChange = "refuse"
    repeat_epochs: bool = False
    allow: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in ("micro_batch_size", "num_parallel_workers", "prefetch_size"):
            _at_least_one(name, getattr(self, name))
        if self.batch_size is not None:
            _at_least_one("batch_size", self.batch_size)
            if self.batch_size % self.micro_batch_size:
                raise ConfigError(
                    f"micro_batch_size is {self.micro_batch_size}, a step takes batches of {self.batch_size} "
                    "(runner_config.batch_size and what multiplies it); expected a divisor of it"
                )
        for name in ("python_multiprocessing", "repeat_epochs"):
            if not isinstance(getattr(self, name), bool):
                raise ConfigError(f"{name} is {getattr(self, name)!r}; expected true or false")
        if self.repeat_epochs and self.plan.order != "megatron":
            raise ConfigError(f"repeat_epochs is true, and order: {self.plan.order} has no end to begin again after")
        if self.on_change not in get_args(OnChange):
            raise ConfigError(f"on_change is {self.on_change!r}; expected one of: {', '.join(get_args(OnChange))}")
        check_names(self.allow)

    def epoch_of(self, plan: SamplePlan) -> int:
        """Samples of one MindSpore epoch over all ranks, before they are cut to whole global batches.

        What is asked for, where Megatron's order has a few more.
        """
        return min(plan.num_samples, self.plan.num_samples or plan.num_samples)

    @property
    def share(self) -> Shard:
        """The share of this process."""
        return self.shard or Shard.of(self.shard_id, self.num_shards)

    @property
    def rows_per_step(self) -> int:
        """Rows that a step takes on this rank."""
        return self.batch_size or self.micro_batch_size

    @classmethod
    def from_options(cls, options: Mapping[str, Any]) -> "LoaderOptions":
        """Builds the options from plain ones.

        Args:
            options: The loader's own (the attributes above; ``column_names``; ``create_attention_mask`` and
                ``create_compressed_eod_mask``) and the plan's (see ``PlanSpec``); or those of MindFormers' own loader
                (see ``builtin_options``). None stands for "not given".

        Raises:
            ConfigError: One line, for an unknown option (with the nearest right one), a missing one, or a bad value.
        """
        if is_builtin(options):
            options = from_builtin(options)
        own = [field.name for field in fields(cls) if field.name != "plan"]
        known = [*(field.name for field in fields(PlanSpec)), *own, "column_names", *MASK_COLUMNS]
        for name in options:
            if name not in known:
                raise ConfigError(unknown_option(name, known))
        given = {name: value for name, value in options.items() if value is not None}
        if "allow" in given:
            given["allow"] = _names("allow", given["allow"])
        if "shard" in given:
            given["shard"] = _shard(given["shard"])
        columns = given.pop("column_names", None)
        masks = [column for name, column in MASK_COLUMNS.items() if given.pop(name, False)]
        if columns is None:
            columns = given.get("columns", [*DEFAULT_COLUMNS, *masks])
        for column in masks:
            if column not in columns:
                raise ConfigError(f"input_columns are {list(columns)}; {column} is asked for and missing among them")
        if "actual_seq_len" in masks and list(columns)[-1] != "actual_seq_len":
            raise ConfigError(
                f"input_columns are {list(columns)}; with create_compressed_eod_mask the last must be actual_seq_len, "
                "because MindFormers adds offsets to the last column of each batch"
            )
        plan = {name: value for name, value in given.items() if name not in own}
        if isinstance(plan.get("shard_files"), bool):
            shard = given.get("shard") or Shard.of(given.get("shard_id"), given.get("num_shards"))
            # As many groups as there are ranks that read; a number in its place keeps them when ranks change.
            plan["shard_files"] = shard.ranks if plan["shard_files"] else None
        spec = PlanSpec.from_options({**plan, "columns": columns})
        return cls(plan=spec, **{name: given[name] for name in own if name in given})

    def clamped(self) -> "LoaderOptions":
        """The options with no more workers than the machine has cores, which is all that MindSpore accepts."""
        return replace(self, num_parallel_workers=clamp_workers(self.num_parallel_workers))


def clamp_workers(workers: int) -> int:
    """Returns ``workers``, or the number of cores if that is less, with a warning."""
    cores = os.cpu_count() or 1
    if workers > cores:
        logger.warning("num_parallel_workers %d is more than the %d cores here; %d are used", workers, cores, cores)
        return cores
    return workers


def _shard(value: object) -> Shard:
    if value == "environment":
        found = {name: os.environ.get(name, "") for name in ("RANK_ID", "RANK_SIZE")}
        for name, text in found.items():
            if not text.isdigit():
                raise ConfigError(f"shard is environment, and {name} is {text!r}; expected a whole number")
        return Shard.of(int(found["RANK_ID"]), int(found["RANK_SIZE"]))
    if not isinstance(value, list | tuple) or len(value) != 2:
        raise ConfigError(f"shard is {value!r}; expected [shard_id, num_shards], or environment")
    return Shard.of(*value)


def _names(name: str, value: object) -> tuple[str, ...]:
    names = [value] if isinstance(value, str) else value
    if not isinstance(names, list | tuple) or not all(isinstance(item, str) for item in names):
        raise ConfigError(f"{name} is {value!r}; expected a list of names")
    return tuple(names)


def _at_least_one(name: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ConfigError(f"{name} is {value!r}; expected a whole number ≥ 1")
