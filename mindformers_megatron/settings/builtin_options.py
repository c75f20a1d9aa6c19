"""The options of MindFormers' own ``BlendedMegatronDatasetDataLoader``, understood as ours.

A YAML written for it works with nothing changed but ``type``: the same samples, in the same order. What it does without
being asked is not imitated: labels that happen to equal ``pad`` keep their loss, and ids that do stay what they are.
"""

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from mindformers_megatron.errors import ConfigError, unknown_option

logger = logging.getLogger(__name__)

_PHASES = ("train", "valid", "test")
_PATHS = {"train": "train_data_path", "valid": "valid_data_path", "test": "test_data_path"}
# How the built-in loader reads files and builds indices, which changes no sample.
_WITHOUT_EFFECT = ("num_dataset_builder_threads", "mmap_bin_files", "s3_cache_path")
_RENAMED = {
    "seed": "seed",
    "seq_length": "seq_length",
    "split": "split",
    "path_to_cache": "cache_dir",
    "reset_position_ids": "reset_position_ids",
    "reset_attention_mask": "reset_attention_mask",
    "drop_last_partial_validation_sequence": "drop_last_partial_validation_sequence",
    "add_extra_token_to_sequence": "add_extra_token_to_sequence",
}
_SWITCHES = ("eod_mask_loss", "create_attention_mask", "create_compressed_eod_mask")
_KNOWN = (
    *_RENAMED,
    *_SWITCHES,
    "data_path",
    *_PATHS.values(),
    "eod",
    "pad",
    "eod_pad_length",
    "compressed_eod_mask_length",
    *_WITHOUT_EFFECT,
)
_OUTSIDE = ("datasets_type", "sizes", "config", "phase", "tokenizer")


def is_builtin(options: Mapping[str, Any]) -> bool:
    """Whether these are options of MindFormers' own loader."""
    return any(options.get(name) is not None for name in ("datasets_type", "sizes", "config"))


def from_builtin(options: Mapping[str, Any]) -> dict[str, Any]:
    """Translates the options of MindFormers' own loader.

    Args:
        options: Those of ``data_loader``; the loader's own (``batch_size``, ``on_change``, …) pass unchanged.

    Raises:
        ConfigError: One line, for an option of ``config`` that does not exist, and for what cannot work.
    """
    config = options.get("config")
    if not isinstance(config, Mapping):
        raise ConfigError(
            f"config is {config!r}; expected the mapping of MindFormers' own loader (data_path, seq_length, …), which "
            "reads config.create_compressed_eod_mask itself; an option of that name cannot mean anything else"
        )
    for name in config:
        if name not in _KNOWN:
            raise ConfigError(f"config: {unknown_option(name, _KNOWN)}")
    if options.get("datasets_type", "GPTDataset") != "GPTDataset":
        raise ConfigError(f"datasets_type is {options['datasets_type']!r}; expected GPTDataset")
    phase = options.get("phase") or "train"
    if phase not in _PHASES:
        raise ConfigError(f"phase is {phase!r}; expected one of: {', '.join(_PHASES)}")
    given = {name: value for name, value in config.items() if value is not None}
    compressed = bool(given.get("create_compressed_eod_mask", False))
    translated = {name: value for name, value in options.items() if name not in _OUTSIDE and value is not None}
    if translated.pop("shuffle", False):
        raise ConfigError("shuffle: true would mix Megatron's order once more; leave it out, or name our own options")
    translated |= {ours: given[theirs] for theirs, ours in _RENAMED.items() if theirs in given}
    translated |= _corpora(given, phase)
    size = _size(options.get("sizes"), phase)
    translated |= {
        "order": "megatron",
        "blend_sizes": "mindformers",
        "repeat_epochs": True,
        "split_part": phase,
        "num_samples": size,
        "loss_mask": "eod" if given.get("eod_mask_loss") else "none",
        "create_compressed_eod_mask": compressed,
        # Of its two masks it makes one, and the dense one unless told otherwise.
        "create_attention_mask": not compressed and bool(given.get("create_attention_mask", True)),
        "eod_pad_length": given.get("eod_pad_length", given.get("compressed_eod_mask_length", 128)),
    }
    shown = compressed or given.get("reset_position_ids") or given.get("reset_attention_mask")
    if shown:
        # It looks for EOD tokens; the index may know of more documents.
        translated["boundaries"] = "eod"
    for theirs, ours in (("eod", "eod_id"), ("pad", "pad_id")):
        if given.get(theirs, -1) != -1:
            translated[ours] = given[theirs]
    if given.get("pad", -1) != -1 and given.get("pad") == given.get("eod"):
        logger.warning(
            "config.pad and config.eod are both %s: MindFormers' own loader takes every end of document for padding, "
            "without loss and as token 0; here it stays a token as any other",
            given["pad"],
        )
    return translated


def _size(sizes: Any, phase: str) -> int | None:
    if sizes is None:
        return None
    if not isinstance(sizes, Sequence) or isinstance(sizes, str) or len(sizes) != len(_PHASES):
        raise ConfigError(f"sizes is {sizes!r}; expected three numbers of samples: train, valid, test")
    size = sizes[_PHASES.index(phase)]
    if size is not None and (isinstance(size, bool) or not isinstance(size, int) or size < 1):
        raise ConfigError(f"sizes is {list(sizes)!r}; expected at least 1 sample for {phase}, or null: all there are")
    return size


def _corpora(given: Mapping[str, Any], phase: str) -> dict[str, Any]:
    apart = [name for name in _PATHS.values() if name in given]
    if apart:
        if "data_path" in given or "split" in given:
            raise ConfigError(
                f"config has {apart[0]} and {'data_path' if 'data_path' in given else 'split'}; choose one"
            )
        name = _PATHS[phase]
        if name not in given:
            raise ConfigError(f"config.{name} is missing, and phase is {phase}")
        prefixes, weights = _blend(given[name], name)
        # A part with files of its own is all of them; one corpus is not blended there, with a weight or without.
        return {"dataset_dir": prefixes, "dataset_weights": weights if len(prefixes) > 1 else None}
    if "data_path" not in given:
        raise ConfigError("config.data_path is missing; expected prefixes, or weights and prefixes in turn")
    if "split" not in given:
        raise ConfigError('config.split is missing; expected train, valid and test, as "1, 0, 0"')
    prefixes, weights = _blend(given["data_path"], "data_path")
    return {"dataset_dir": prefixes, "dataset_weights": weights}


def _blend(value: Any, name: str) -> tuple[list[str], list[float] | None]:
    items = [value] if isinstance(value, str) else value
    if not isinstance(items, Sequence) or not items:
        raise ConfigError(f"config.{name} is {value!r}; expected prefixes, or weights and prefixes in turn")
    items = [str(item).strip() for item in items]
    weights = [_number(item) for item in items[::2]]
    if len(items) % 2 or not any(weight is not None for weight in weights):
        return items, None
    numbers = [weight for weight in weights if weight is not None]
    if len(numbers) < len(weights):
        raise ConfigError(f"config.{name} has weights and prefixes not in turn: {items!r}")
    return items[1::2], numbers


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
