"""``train.yaml``: the corpora of a recipe as a MindFormers' data loader takes them."""

import json
from typing import Any

from mindformers_megatron.corpus.prepare.outcome import Corpus, Outcome
from mindformers_megatron.corpus.splits import REST
from mindformers_megatron.errors import ConfigError

Values = dict[str, Any]

_DIGITS = 6


def training_yaml(outcome: Outcome) -> str:
    """The text of the file: a fragment of a MindFormers YAML, or a whole one if the recipe names one it is based on.

    The training parts are blended in proportion to their tokens.

    Args:
        outcome: it has corpora.
    """
    recipe = outcome.recipe
    corpora = [corpus for corpus in outcome.corpora if corpus.part == REST]
    loader: Values = {
        "type": "BlendedMegatronDataLoader",
        "dataset_dir": _paths(corpora),
        "dataset_names": [corpus.source for corpus in corpora],
        "dataset_weights": _weights(corpora),
    }
    if recipe.packing.seq_length is not None:
        loader["seq_length"] = recipe.packing.seq_length
    values: Values = {"train_dataset": {"data_loader": loader}}
    if recipe.training.base_config is not None:
        values = {"base_config": _absolute(recipe.training.base_config), **values}
    for path, value in recipe.training.settings.items():
        _put(values, path, value)
    lines = [
        f"# {recipe.output.name}: {sum(corpus.written['tokens'] for corpus in corpora):,} tokens, "
        "blended in proportion to the tokens of each source.",
        *_yaml(values),
    ]
    for part in recipe.splits.parts[1:]:
        held_out = [corpus for corpus in outcome.corpora if corpus.part == part]
        if held_out:
            lines.append(f"# {part}: dataset_dir: {json.dumps(_paths(held_out), ensure_ascii=False)}")
    return "\n".join(lines) + "\n"


def _paths(corpora: list[Corpus]) -> list[str]:
    return [_absolute(f"{corpus.prefix}.bin") for corpus in corpora]


def _absolute(path: str) -> str:
    from pathlib import Path

    return str(Path(path).absolute())


def _weights(corpora: list[Corpus]) -> list[float]:
    total = sum(corpus.written["tokens"] for corpus in corpora)
    return [max(round(corpus.written["tokens"] / total, _DIGITS), 10.0**-_DIGITS) for corpus in corpora]


def _put(values: Values, path: str, value: Any) -> None:
    *above, last = path.split(".")
    inner = values
    for name in above:
        inner = inner.setdefault(name, {})
        if not isinstance(inner, dict):
            raise ConfigError(f"training.settings: {path} leads through {name}, which is no section")
    inner[last] = value


def _yaml(values: Values, indent: str = "") -> list[str]:
    # JSON is YAML: whatever a path holds, it is quoted right.
    lines = []
    for name, value in values.items():
        if isinstance(value, dict):
            lines += [f"{indent}{name}:", *_yaml(value, indent + "  ")]
        elif isinstance(value, list) and value:
            lines += [f"{indent}{name}:"]
            lines += [f"{indent}  - {json.dumps(item, ensure_ascii=False)}" for item in value]
        else:
            lines.append(f"{indent}{name}: {json.dumps(value, ensure_ascii=False)}")
    return lines
