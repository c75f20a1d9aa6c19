"""What a plan is asked to be: every option, checked when it is set, before a file is opened."""

from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from os import PathLike, fspath
from typing import Any, Literal, get_args

from mindformers_megatron.errors import ConfigError, unknown_option
from mindformers_megatron.sampling.columns import COLUMNS, DEFAULT_COLUMNS, ColumnOptions, LossMask
from mindformers_megatron.sampling.schedule import Skips, check_skips
from mindformers_megatron.sampling.shares import WeightBy, check_weights
from mindformers_megatron.sampling.splits import Split, parse_split
from mindformers_megatron.sampling.stream_order import Shuffle

Boundaries = Literal["index", "eod"]
OrderName = Literal["stream", "document", "megatron"]
BlendSizes = Literal["megatron", "mindformers"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanSpec:
    """The options of a plan, under the names they have in YAML.

    Attributes:
        dataset_dir: Paths of the corpora: prefix, ``.bin`` or ``.idx``; one string stands for a list of one.
        seq_length: L, inputs in a sample.
        dataset_weights: One for each corpus; None: in proportion to their tokens.
        dataset_names: Names for the corpora; None: from the paths.
        dataset_ranges: For each corpus the stretch of it that is read, as ``[begin, end]`` of its tokens, 0 to 1, cut
            between documents; None: all of it.
        shard_files: Groups of ranks among which the files are divided, so that each opens its share; see
            ``GroupedPlan``. None: every rank opens all.
        seed: Of everything drawn; a corpus's stream depends on (seed, its name).
        num_samples: Samples in one pass of a training framework over the plan, over all ranks; None: the corpora's
            tokens // seq_length. The stream itself has no end.
        order: ``stream``: windows of a stream of tokens (``StreamOrder``); ``document``: documents kept whole
            (``DocumentOrder``).
        split: Train, validation and test as ``"969,30,1"`` or three numbers, by documents; None: all documents.
        split_part: Which part of the split this plan reads.
        weight_schedule: ``[{from_sample, weights}, …]``: other weights from given samples on.
        skip_samples: ``[[first, behind_last], …]``: positions of the mix that the run steps over.
        max_epochs: How often a corpus may be gone through, for all or by name; what goes beyond is refused at the
            start.
        shuffle: True, False or "block"; see ``StreamOrder``.
        shuffle_block_size: Windows in a block, for ``shuffle: block``.
        stride: Distance of two windows; None: seq_length.
        epoch_offsets: Whether each epoch after the first cuts its windows from a drawn offset.
        weight_by: What the weights divide up: samples or tokens.
        temperature: T in share ∝ weight ** (1 / T).
        columns: What a sample holds; see ``COLUMNS``.
        loss_mask: See ``ColumnOptions``.
        reset_position_ids: See ``ColumnOptions``.
        reset_attention_mask: See ``ColumnOptions``.
        add_extra_token_to_sequence: Megatron's option of this name, for ``order: megatron``.
        drop_last_partial_validation_sequence: Megatron's option of this name, for ``order: megatron``.
        blend_sizes: Whose rule says how many samples of each corpus ``order: megatron`` builds for a weighted blend:
            Megatron's, or that of MindFormers' own loader; see ``megatron_blend``.
        repeat_after: ``order: megatron`` only: after so many samples the run begins again at sample 0; None: it ends.
        cache_dir: Where ``order: megatron`` keeps the indices that it builds; None: in memory only.
        boundaries: Where documents begin: as the index says, or behind every EOD token.
        eod_id: The EOD token; None: as the corpora's metadata says.
        pad_id: What fills columns that no token covers.
        eod_pad_length: Width of ``actual_seq_len``.
    """

    dataset_dir: tuple[str, ...]
    seq_length: int
    dataset_weights: tuple[float, ...] | None = None
    dataset_names: tuple[str, ...] | None = None
    dataset_ranges: tuple[tuple[float, float], ...] | None = None
    shard_files: int | None = None
    seed: int = 1234
    num_samples: int | None = None
    order: OrderName = "stream"
    split: str | tuple[float, ...] | None = None
    split_part: Split = "train"
    weight_schedule: tuple[tuple[int, tuple[float, ...]], ...] = ()
    skip_samples: Skips = ()
    max_epochs: float | Mapping[str, float] | None = None
    shuffle: Shuffle = "true"
    shuffle_block_size: int = 1024
    stride: int | None = None
    epoch_offsets: bool = True
    weight_by: WeightBy = "samples"
    temperature: float = 1.0
    columns: tuple[str, ...] = DEFAULT_COLUMNS
    loss_mask: LossMask = "none"
    reset_position_ids: bool = False
    reset_attention_mask: bool = False
    add_extra_token_to_sequence: bool = True
    drop_last_partial_validation_sequence: bool = True
    blend_sizes: BlendSizes = "megatron"
    repeat_after: int | None = None
    cache_dir: str | None = None
    boundaries: Boundaries = "index"
    eod_id: int | None = None
    pad_id: int = 0
    eod_pad_length: int = 128

    def __post_init__(self) -> None:
        for name in ("seq_length", "shuffle_block_size", "eod_pad_length"):
            _whole(name, getattr(self, name), least=1)
        for name in ("num_samples", "stride", "repeat_after", "shard_files"):
            if getattr(self, name) is not None:
                _whole(name, getattr(self, name), least=1)
        for name in ("seed", "pad_id"):
            _whole(name, getattr(self, name), least=0)
        if self.eod_id is not None:
            _whole("eod_id", self.eod_id, least=0)
        for name in _BOOLEANS:
            if not isinstance(getattr(self, name), bool):
                raise ConfigError(f"{name} is {getattr(self, name)!r}; expected true or false")
        _choice("order", self.order, get_args(OrderName))
        _choice("blend_sizes", self.blend_sizes, get_args(BlendSizes))
        _choice("split_part", self.split_part, get_args(Split))
        for name in _ONLY_OTHER_ORDERS[self.order]:
            if getattr(self, name) != _DEFAULTS[name]:
                raise ConfigError(
                    f"{name} is {getattr(self, name)!r}, which order: {self.order} has no use for; leave it out"
                )
        if self.split is not None:
            parse_split(self.split)
        _choice("shuffle", self.shuffle, get_args(Shuffle))
        _choice("weight_by", self.weight_by, get_args(WeightBy))
        _choice("loss_mask", self.loss_mask, get_args(LossMask))
        _choice("boundaries", self.boundaries, get_args(Boundaries))
        if not self.columns or len(set(self.columns)) < len(self.columns):
            raise ConfigError(f"columns is {list(self.columns)!r}; expected distinct names out of {', '.join(COLUMNS)}")
        for name in self.columns:
            _choice("columns", name, COLUMNS)
        names = self.dataset_names or self.dataset_dir
        if self.dataset_weights is not None:
            check_weights(self.dataset_weights, names)
        for begin, weights in self.weight_schedule:
            check_weights(weights, names, f"weight_schedule from sample {begin}")
        if [begin for begin, _ in self.weight_schedule] != sorted({begin for begin, _ in self.weight_schedule}):
            raise ConfigError("weight_schedule: from_sample must ascend from entry to entry")
        _check_ranges(self.dataset_ranges, names)
        if self.shard_files is not None:
            for name in ("dataset_weights", "num_samples"):
                if getattr(self, name) is None:
                    raise ConfigError(f"{name} is missing; with shard_files no rank opens all files to count tokens")
            for name in _NOT_WITH_GROUPS:
                if getattr(self, name) != _DEFAULTS[name]:
                    raise ConfigError(f"{name} is {getattr(self, name)!r}, which does not go with shard_files")
        limits = self.max_epochs.values() if isinstance(self.max_epochs, Mapping) else [self.max_epochs]
        for limit in limits:
            if limit is not None and not (isinstance(limit, int | float) and limit > 0):
                raise ConfigError(f"max_epochs is {limit!r}; expected a number above 0, or one for each corpus by name")

    @classmethod
    def from_options(cls, options: Mapping[str, Any]) -> "PlanSpec":
        """Builds a spec from plain options, as YAML gives them.

        Raises:
            ConfigError: One line, for an unknown option (with the nearest right one), a missing one, or a value out
            of range.
        """
        known = {field.name: field for field in fields(cls)}
        for name in options:
            if name not in known:
                raise ConfigError(unknown_option(name, known))
        values = dict(options)
        for name, field in known.items():
            if field.default is MISSING and values.get(name) is None:
                raise ConfigError(f"{name} is missing; it has no default")
        values["dataset_dir"] = tuple(
            fspath(path) for path in _items(values["dataset_dir"], "dataset_dir", (str, PathLike))
        )
        for name, kinds in (("dataset_weights", (int, float)), ("dataset_names", (str,)), ("columns", (str,))):
            if values.get(name) is not None:
                values[name] = _items(values[name], name, kinds)
            elif name in values:
                del values[name]
        if values.get("weight_schedule"):
            values["weight_schedule"] = tuple(_step(entry) for entry in values["weight_schedule"])
        if values.get("skip_samples"):
            values["skip_samples"] = check_skips(values["skip_samples"])
        for name in ("weight_schedule", "skip_samples"):
            if name in values and not values[name]:
                del values[name]
        if values.get("dataset_ranges") is not None:
            values["dataset_ranges"] = tuple(_pair(pair) for pair in values["dataset_ranges"])
        if isinstance(values.get("split"), list):
            values["split"] = tuple(values["split"])
        if isinstance(values.get("shuffle"), bool):
            values["shuffle"] = str(values["shuffle"]).lower()
        if values.get("loss_mask") in (None, False):
            # YAML reads a bare "none" as a word, but ~, null and a missing value as None.
            values["loss_mask"] = "none"
        return cls(**values)

    def column_options(self, eod_id: int | None) -> ColumnOptions:
        """The options of ``layout.Layout``, with the EOD token found for this plan."""
        return ColumnOptions(
            names=self.columns,
            loss_mask=self.loss_mask,
            reset_position_ids=self.reset_position_ids,
            reset_attention_mask=self.reset_attention_mask,
            eod_id=eod_id,
            eod_pad_length=self.eod_pad_length,
        )


def _pair(pair: Any) -> tuple[float, float]:
    if not isinstance(pair, Sequence) or len(pair) != 2 or not all(isinstance(end, int | float) for end in pair):
        raise ConfigError(f"dataset_ranges holds {pair!r}; expected [begin, end] for each corpus")
    return (pair[0], pair[1])


def _check_ranges(ranges: tuple[tuple[float, float], ...] | None, names: Sequence[str]) -> None:
    if ranges is None:
        return
    if len(ranges) != len(names):
        raise ConfigError(f"dataset_ranges has {len(ranges)} entries for {len(names)} corpora ({', '.join(names[:8])})")
    for (begin, end), name in zip(ranges, names, strict=True):
        if not 0 <= begin < end <= 1:
            raise ConfigError(f"dataset_ranges: [{begin}, {end}] for {name}; expected 0 ≤ begin < end ≤ 1")


def _step(entry: Any) -> tuple[int, tuple[float, ...]]:
    if not isinstance(entry, Mapping) or set(entry) != {"from_sample", "weights"}:
        raise ConfigError(f"weight_schedule holds {entry!r}; expected from_sample and weights in each entry")
    _whole("weight_schedule.from_sample", entry["from_sample"], least=0)
    return entry["from_sample"], _items(entry["weights"], "weight_schedule.weights", (int, float))


_BOOLEANS = tuple(field.name for field in fields(PlanSpec) if field.type is bool)
_DEFAULTS = {field.name: field.default for field in fields(PlanSpec)}
_MEGATRON_ONLY = (
    "add_extra_token_to_sequence",
    "drop_last_partial_validation_sequence",
    "blend_sizes",
    "repeat_after",
    "cache_dir",
)
_NOT_WITH_GROUPS = ("weight_schedule", "skip_samples", "max_epochs", "weight_by", "dataset_ranges")
_STREAM_ONLY = ("stride", "epoch_offsets", "shuffle_block_size")
_SCHEDULED = ("shuffle", "weight_by", "temperature", "weight_schedule", "skip_samples")
_ONLY_OTHER_ORDERS: Mapping[str, tuple[str, ...]] = {
    "stream": _MEGATRON_ONLY,
    "document": (*_MEGATRON_ONLY, *_STREAM_ONLY),
    "megatron": (*_STREAM_ONLY, *_SCHEDULED, "dataset_ranges", "shard_files"),
}


def _whole(name: str, value: object, *, least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value < 2**62:
        raise ConfigError(f"{name} is {value!r}; expected a whole number ≥ {least}")


def _choice(name: str, value: object, allowed: Sequence[str]) -> None:
    if value not in allowed:
        raise ConfigError(f"{name} is {value!r}; expected one of: {', '.join(allowed)}")


def _items(value: Any, name: str, kinds: tuple[type, ...]) -> tuple[Any, ...]:
    items = [value] if isinstance(value, kinds) else value
    if not isinstance(items, Sequence) or not all(isinstance(item, kinds) for item in items):
        raise ConfigError(f"{name} is {value!r}; expected a list of {' or '.join(kind.__name__ for kind in kinds)}")
    return tuple(items)
