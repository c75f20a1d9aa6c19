"""What the demo found."""

from dataclasses import dataclass

from mindformers_megatron.demo.compare import Comparison
from mindformers_megatron.demo.delivered import Share


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What the demo found.

    Attributes:
        comparison: the two runs side by side.
        straight: what the corpora gave to the run that went straight through.
        resumed: what they gave to the steps that the interrupted run's model came from.
    """

    comparison: Comparison
    straight: tuple[Share, ...]
    resumed: tuple[Share, ...]

    @property
    def off(self) -> list[str]:
        """The corpora that did not give what they were asked to, in one run or the other."""
        return sorted({share.name for share in self.straight + self.resumed if not share.exact})

    @property
    def proved(self) -> bool:
        """Whether the runs are equal and every corpus gave in both what it was asked to."""
        return self.comparison.equal and not self.off
