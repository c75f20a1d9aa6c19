"""What comparing all documents will need, reckoned before the work from the first documents of each source."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from mindformers_megatron.corpus.batch import Batch
from mindformers_megatron.corpus.dedup.exact import duplicates_footprint
from mindformers_megatron.corpus.dedup.lsh import candidates_footprint
from mindformers_megatron.corpus.dedup.spill import Bound, Footprint
from mindformers_megatron.corpus.prepare.exact import ExactDedup
from mindformers_megatron.corpus.prepare.near import NearDedup
from mindformers_megatron.corpus.prepare.raw import RawPart
from mindformers_megatron.corpus.prepare.stages import stages_of
from mindformers_megatron.corpus.readers.reading import read_part
from mindformers_megatron.corpus.recipe import Recipe
from mindformers_megatron.corpus.rejects import Rejects

_LOOKED_AT = 200


@dataclass(frozen=True, slots=True)
class Need:
    """What a stage needs to compare documents.

    Attributes:
        stage: its name.
        documents: about how many there are, if no step before drops any.
        footprint: memory and disk for it.
    """

    stage: str
    documents: int
    footprint: Footprint


def needs_of(recipe: Recipe, parts: Sequence[RawPart]) -> Iterator[Need]:
    """Reckons what each stage of deduplication needs. A compressed file counts as large as it is on disk."""
    stages = [stage for stage in stages_of(recipe) if isinstance(stage.incoming, ExactDedup | NearDedup)]
    documents = 0.0
    rows = dict.fromkeys((stage.name for stage in stages), 0.0)
    for source in recipe.sources if stages else ():
        of_source = [part.part for part in parts if part.source is source]
        first = Batch([one for part in of_source[:1] for one in islice(read_part(part, Rejects(None).add), _LOOKED_AT)])
        if not first:
            continue
        times = max(sum(part.bytes for part in of_source) / max(sum(first.sizes), 1), 1)
        documents += times * len(first)
        for stage in stages:
            assert stage.incoming is not None
            gatherer = stage.incoming.gatherer()
            gatherer.add(first)
            rows[stage.name] += times * gatherer.arrays()["rows"].size
    bound = Bound(memory_bytes=recipe.memory_bytes)
    for stage in stages:
        if isinstance(stage.incoming, NearDedup):
            needed = candidates_footprint(int(documents), stage.incoming.options.chosen_bands(), bound)
        else:
            needed = duplicates_footprint(int(rows[stage.name]), bound)
        yield Need(stage.name, int(documents), needed)
