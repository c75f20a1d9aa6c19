"""Going on from a state: exactly where nothing changed, and by the corpora's own counts where the change is allowed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from mindformers_megatron.errors import ConfigError
from mindformers_megatron.sampling.blend import Blend
from mindformers_megatron.sampling.corpora import Corpus
from mindformers_megatron.sampling.mix import Mix
from mindformers_megatron.sampling.schedule import Phase
from mindformers_megatron.sampling.state import DataState, PhaseState

_NEVER = "resume with the old value, or start a new run"
_ASK = "resume with the old value, or set on_change: continue to go on with the new one from each corpus's own count"

OnChange = Literal["refuse", "continue"]
Change = tuple[str, object, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Resumed:
    """How a run goes on.

    Attributes:
        names: All corpora of the run, in the order of its blends: those of the state, then those that are new.
        phases: The phases, those of the past included.
        changes: (field, before, now) for what changed and was allowed to.
    """

    names: tuple[str, ...]
    phases: tuple[Phase, ...]
    changes: tuple[Change, ...] = ()


def resume(state: DataState, corpora: Sequence[Corpus], mix: Mix, on_change: OnChange) -> Resumed:
    """Reconciles a state with what the options ask for now.

    Args:
        state: The state of the run so far, found unchanged in all that may not change.
        corpora: The corpora, opened, in the order of the options.
        mix: The mix asked for.
        on_change: Whether changed weights, corpora and skip lists are refused, or begin a new phase.

    Raises:
        ConfigError: One line with the field and both values, for a change that is not allowed.
    """
    before = [corpus.name for corpus in state.corpora]
    names = (*before, *(corpus.name for corpus in corpora if corpus.name not in before))
    phases = tuple(_opened(phase, len(names)) for phase in state.phases)
    changes = mix.differences(state.mix)
    if not changes:
        return Resumed(names=names, phases=phases)
    if on_change == "refuse":
        raise _refusal(*changes[0], _ASK)
    return Resumed(names=names, phases=mix.phases(names, phases, state.consumed_samples), changes=tuple(changes))


def check_unchanged(state: DataState, identity: Mapping[str, Any], corpora: Sequence[Corpus]) -> None:
    """Raises ConfigError for a change that no run can take.

    Args:
        state: The state of the run so far.
        identity: The plan's fields, as in ``DataState.plan``.
        corpora: The corpora, opened.
    """
    for field in {**state.plan, **identity}:
        if state.plan.get(field) != identity.get(field):
            raise _refusal(field, state.plan.get(field), identity.get(field), _NEVER)
    before = {corpus.name: corpus for corpus in state.corpora}
    for corpus in corpora:
        for field in ("tokenizer", "fingerprint"):
            if corpus.name in before and getattr(before[corpus.name], field) != getattr(corpus, field):
                old, new = getattr(before[corpus.name], field), getattr(corpus, field)
                raise _refusal(f"{field} of corpus {corpus.name}", old, new, _NEVER)


def phase_states(phases: Sequence[Phase]) -> tuple[PhaseState, ...]:
    """The phases as a state holds them."""
    return tuple(
        PhaseState(
            first=phase.first,
            position=phase.position,
            parts=tuple(phase.blend.parts.tolist()),
            base=tuple(phase.base.tolist()),
            skips=phase.skips,
        )
        for phase in phases
    )


def _opened(phase: PhaseState, size: int) -> Phase:
    def padded(values: Sequence[int]) -> np.ndarray[Any, np.dtype[np.int64]]:
        return np.array([*values, *[0] * (size - len(values))], dtype=np.int64)

    return Phase(
        first=phase.first,
        position=phase.position,
        blend=Blend(padded(phase.parts)),
        base=padded(phase.base),
        skips=phase.skips,
    )


def _refusal(field: str, before: object, now: object, hint: str) -> ConfigError:
    return ConfigError(f"the data state was saved with {field} = {before!r}, this run has {now!r}; {hint}")
