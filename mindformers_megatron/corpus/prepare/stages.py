"""From the steps of a recipe to stages: what is done with a shard in one go, between one global step and the next."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from mindformers_megatron.corpus.batch import Batch
from mindformers_megatron.corpus.languages import identify
from mindformers_megatron.corpus.prepare.splitting import Split
from mindformers_megatron.corpus.recipe import GLOBAL_STEPS, GlobalStep, Recipe
from mindformers_megatron.corpus.steps import EMPTY, Step, describe, sift
from mindformers_megatron.corpus.tally import Drop, Tally

READ = "read"
SPLIT = Split.name
TOKENIZE = "tokenize"
REPORT = "report"


@dataclass(frozen=True, slots=True)
class Read:
    """What comes from the readers; texts of nothing but white space end here."""

    name: ClassVar[str] = READ
    version: ClassVar[int] = 1

    def apply(self, batch: Batch, tally: Tally) -> Batch:
        """See ``Step.apply``."""
        drops = [Drop(EMPTY) if not text or text.isspace() else None for text in batch.texts]
        return sift(batch, drops, tally)


@dataclass(frozen=True, slots=True)
class Languages:
    """Tells the languages of what is kept, and changes nothing."""

    name: ClassVar[str] = "languages"
    version: ClassVar[int] = 1

    def apply(self, batch: Batch, tally: Tally) -> Batch:
        """See ``Step.apply``."""
        for document, (language, _) in zip(batch.documents, identify(batch.texts), strict=True):
            tally.find(document.source, language)
        return batch


@dataclass(frozen=True, slots=True)
class Stage:
    """What is done with a shard in one go.

    Attributes:
        name: ``read``, or that of the global step it begins with; numbered where a step occurs twice.
        incoming: the global step whose findings are applied first; None: documents come from the readers.
        steps: what follows.
    """

    name: str
    incoming: GlobalStep | None
    steps: tuple[Step, ...]

    def settings(self) -> list[dict[str, Any]]:
        """What is done, as JSON values, in order."""
        first = describe(Read()) if self.incoming is None else self.incoming.settings()
        return [first, *map(describe, self.steps)]

    @property
    def step_names(self) -> list[str]:
        """The names of what is counted, in order."""
        return [READ if self.incoming is None else self.name, *(step.name for step in self.steps)]


def stages_of(recipe: Recipe) -> list[Stage]:
    """The stages of a recipe, up to the one that splits."""
    steps: list[Step | GlobalStep] = [*recipe.steps]
    if recipe.report.languages:
        steps.append(Languages())
    stages: list[Stage] = []
    incoming: GlobalStep | None = None
    local: list[Step] = []
    for step in steps:
        if isinstance(step, GLOBAL_STEPS):
            stages.append(Stage(_unused(incoming, stages), incoming, tuple(local)))
            incoming, local = step, []
        else:
            local.append(step)
    stages.append(Stage(_unused(incoming, stages), incoming, tuple(local)))
    return stages


def _unused(incoming: GlobalStep | None, stages: Sequence[Stage]) -> str:
    name = READ if incoming is None else incoming.name
    count = sum(stage.incoming is not None and stage.incoming.name == name for stage in stages)
    return name if not count else f"{name}-{count + 1}"
