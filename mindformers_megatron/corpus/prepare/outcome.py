"""What a recipe came to, as values."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mindformers_megatron.corpus.prepare.exchange import Shard
from mindformers_megatron.corpus.prepare.raw import RawPart
from mindformers_megatron.corpus.prepare.stages import Stage
from mindformers_megatron.corpus.recipe import Recipe
from mindformers_megatron.corpus.tally import Tally


@dataclass(frozen=True, slots=True, kw_only=True)
class StageOutcome:
    """What a stage did.

    Attributes:
        stage: the stage.
        shards: what it left, in order.
        tallies: of its steps, over all shards.
        rejects: records that could not be read, by source.
        found: what the global step it begins with found.
    """

    stage: Stage
    shards: tuple[Shard, ...]
    tallies: tuple[Tally, ...]
    rejects: Mapping[str, int] = field(default_factory=dict)
    found: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartShard:
    """What one shard gives to a part of the split; it has documents.

    Attributes:
        part: the part.
        shard: its documents.
    """

    part: str
    shard: Shard


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
