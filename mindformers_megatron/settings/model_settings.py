"""What the model of a run expects of its data, as MindFormers' YAML and a model's own folder say it."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mindformers_megatron.errors import ConfigError

# The names of one setting in the model configs of MindFormers and of Hugging Face; the first that is set counts.
_NAMES = {
    "vocab_size": ("vocab_size",),
    "seq_length": ("seq_length",),
    "max_position_embeddings": ("max_position_embeddings", "max_position_embedding"),
    "bos_token_id": ("bos_token_id",),
    "pad_token_id": ("pad_token_id",),
}
_EOD = "eos_token_id"


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """A number of the model's.

    Attributes:
        value: The number.
        place: Where it stands, for messages.
    """

    value: int
    place: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSettings:
    """What a model expects; None, or empty, for what nothing says.

    Attributes:
        vocab_size: Ids it knows.
        seq_length: Inputs of a sample.
        max_position_embeddings: Positions it knows.
        eod: The tokens that end a text; some models name several.
        bos_token_id: The token that begins one.
        pad_token_id: The token that fills up.
        tokenizer: Where its tokenizer lies, of those paths that the YAML names and that exist.
    """

    vocab_size: Setting | None = None
    seq_length: Setting | None = None
    max_position_embeddings: Setting | None = None
    eod: tuple[Setting, ...] = ()
    bos_token_id: Setting | None = None
    pad_token_id: Setting | None = None
    tokenizer: Mapping[str, Path] | None = None

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> "ModelSettings":
        """Reads them from a run's YAML; from a ``config.json`` in ``pretrained_model_dir`` what the YAML leaves out.

        Raises:
            ConfigError: One line, for a setting that is no whole number.
        """
        sources = [("model.model_config", _mapping(_mapping(config.get("model")).get("model_config")))]
        folder = _pretrained(config)
        if folder is not None:
            sources.append((str(folder / "config.json"), _read_json(folder / "config.json")))
        eod = next(((place, values[_EOD]) for place, values in sources if values.get(_EOD) is not None), None)
        return cls(
            **{field: _setting(sources, names) for field, names in _NAMES.items()},
            eod=() if eod is None else tuple(_whole(value, f"{eod[0]}.{_EOD}") for value in _listed(eod[1])),
            tokenizer=_tokenizer(config, folder),
        )


def _setting(sources: list[tuple[str, Mapping[str, Any]]], names: tuple[str, ...]) -> Setting | None:
    for place, values in sources:
        for name in names:
            if values.get(name) is not None:
                return _whole(values[name], f"{place}.{name}")
    return None


def _whole(value: object, place: str) -> Setting:
    if isinstance(value, bool) or not isinstance(value, int):
        raise ConfigError(f"{place} is {value!r}; expected a whole number")
    return Setting(value=value, place=place)


def _listed(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else [value]


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _pretrained(config: Mapping[str, Any]) -> Path | None:
    asked = config.get("pretrained_model_dir") or _mapping(config.get("model")).get("pretrained_model_dir")
    return Path(asked) if isinstance(asked, str) and Path(asked).is_dir() else None


def _read_json(path: Path) -> Mapping[str, Any]:
    # MindFormers says what is wrong with a file that it cannot read.
    try:
        return _mapping(json.loads(path.read_bytes()))
    except (OSError, ValueError):
        return {}


def _tokenizer(config: Mapping[str, Any], pretrained: Path | None) -> Mapping[str, Path] | None:
    asked = _mapping(_mapping(config.get("processor")).get("tokenizer"))
    for name in ("tokenizer_file", "vocab_file"):
        if isinstance(asked.get(name), str) and Path(asked[name]).is_file():
            found = {name: Path(asked[name])}
            merges = asked.get("merges_file") or asked.get("merge_file")
            if name == "vocab_file" and isinstance(merges, str) and Path(merges).is_file():
                found["merge_file"] = Path(merges)
            return found
    return None if pretrained is None else {"folder": pretrained}
