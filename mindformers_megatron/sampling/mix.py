"""The mix that the options ask for, and the phases that a run makes of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from mindformers_megatron.sampling.blend import Blend
from mindformers_megatron.sampling.corpora import Corpus
from mindformers_megatron.sampling.orders import Order
from mindformers_megatron.sampling.schedule import Phase, Skips, extend
from mindformers_megatron.sampling.shares import integer_parts, sample_weights
from mindformers_megatron.sampling.spec import PlanSpec


@dataclass(frozen=True, slots=True)
class Mix:
    """What the options ask of the blend, by the corpora's names.

    Attributes:
        steps: (from_sample, parts by name), ascending, the first from 0: one for each entry of ``weight_schedule``.
        skips: Positions to step over.
    """

    steps: tuple[tuple[int, Mapping[str, int]], ...]
    skips: Skips = ()

    @classmethod
    def asked(cls, spec: PlanSpec, corpora: Sequence[Corpus], orders: Sequence[Order]) -> "Mix":
        """The mix that a spec asks for, over opened corpora and their orders."""
        names = [corpus.name for corpus in corpora]
        tokens = [corpus.num_tokens for corpus in corpora]
        per_sample = [order.num_tokens / order.epoch_length for order in orders]
        steps: dict[int, Sequence[float] | None] = {0: spec.dataset_weights, **dict(spec.weight_schedule)}

        def parts(weights: Sequence[float] | None) -> dict[str, int]:
            exact = sample_weights(weights, tokens, per_sample, weight_by=spec.weight_by, temperature=spec.temperature)
            return dict(zip(names, integer_parts(exact).tolist(), strict=True))

        return cls(tuple((begin, parts(weights)) for begin, weights in steps.items()), spec.skip_samples)

    def phases(self, names: Sequence[str], before: tuple[Phase, ...] = (), first: int = 0) -> tuple[Phase, ...]:
        """Returns the phases of a run under this mix.

        Args:
            names: All corpora of the run, in the order of the blend; those that the mix does not name get no sample.
            before: The phases of the run so far, over the same names; kept up to ``first``.
            first: The sample from which this mix is in force.
        """
        begins = [max(start, first) for start, _ in self.steps]
        phases = before
        for place, (begin, (_, parts)) in enumerate(zip(begins, self.steps, strict=True)):
            # A step that is over before this mix comes into force never was.
            if place + 1 < len(begins) and begins[place + 1] == begin:
                continue
            blend = Blend(np.array([parts.get(name, 0) for name in names], dtype=np.int64))
            phases = extend(phases, begin, blend, self.skips)
        return phases

    def to_plain(self) -> dict[str, Any]:
        """The mix in JSON's types."""
        return {
            "steps": [[begin, dict(parts)] for begin, parts in self.steps],
            "skip_samples": [list(pair) for pair in self.skips],
        }

    def differences(self, before: Mapping[str, Any]) -> list[tuple[str, object, object]]:
        """Compares with the mix of a state, as ``to_plain`` gave it: (field, before, now) for all that differs."""
        now = self.to_plain()
        found: list[tuple[str, object, object]] = []
        old, new = before["steps"], now["steps"]
        if [begin for begin, _ in old] != [begin for begin, _ in new]:
            found.append(("weight_schedule", [begin for begin, _ in old], [begin for begin, _ in new]))
        for (begin, parts), (_, asked) in zip(old, new, strict=False):
            place = f" from sample {begin}" if begin else ""
            found += [
                (f"share of {name}{place}", _share(parts, name), _share(asked, name))
                for name in {**parts, **asked}
                if _ratio(parts, name) != _ratio(asked, name)
            ]
        if before["skip_samples"] != now["skip_samples"]:
            found.append(("skip_samples", before["skip_samples"], now["skip_samples"]))
        return found


def _ratio(parts: Mapping[str, int], name: str) -> Fraction | None:
    return Fraction(parts[name], sum(parts.values())) if name in parts else None


def _share(parts: Mapping[str, int], name: str) -> object:
    ratio = _ratio(parts, name)
    return "(not in the blend)" if ratio is None else round(float(ratio), 9)
