"""What a recipe came to, as values."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mindformers_megatron.corpus.prepare.exchange import Shard
from mindformers_megatron.corpus.prepare.raw import RawPart
from mindformers_megatron.corpus.prepare.stages import Stage
from mindformers_megatron.corpus.recipe import Recipe


@dataclass(frozen=True, slots=True, kw_only=True)
class StageOutcome:
    """What a stage did.

    Attributes:
        stage: the stage.
        shards: what it left, in order.
        results: of its jobs, in the order of the shards; see ``StageWork``.
        found: what the global step it begins with found.
    """

    stage: Stage
    shards: tuple[Shard, ...]
    results: tuple[dict[str, Any], ...]
    found: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartShard:
    """What one shard gives to a part of the split; it has documents.

    Attributes:
        part: the part.
        shard: its documents.
        bytes: of their texts.
    """

    part: str
    shard: Shard
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Corpus:
    """A pair that came out.

    Attributes:
        source: whose documents.
        part: of the split.
        prefix: of the pair.
        written: counts and hashes; see ``tokens.join``.
    """

    source: str
    part: str
    prefix: Path
    written: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a recipe came to.

    Attributes:
        recipe: the recipe.
        parts: the raw files, in parts.
        stages: in order.
        divided: what is kept, by part and in order.
        corpora: the pairs; none without a tokenizer.
    """

    recipe: Recipe
    parts: tuple[RawPart, ...]
    stages: tuple[StageOutcome, ...]
    divided: tuple[PartShard, ...]
    corpora: tuple[Corpus, ...]
