"""What a mix comes to: per corpus its share, its samples and its epochs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mindformers_megatron.errors import ConfigError, unknown_option


@dataclass(frozen=True, slots=True, kw_only=True)
class TableRow:
    """One corpus in the table that a run prints at its start.

    Attributes:
        name: Its name in the run.
        path: Its prefix.
        tokens: Tokens it holds.
        weight: The weight asked; None where none was given.
        share: The share of samples in force.
        samples: Samples it gives over the table's length.
        epochs: How many times that goes through it.
        fingerprint: Identity of its content.
    """

    name: str
    path: str
    tokens: int
    weight: float | None
    share: float
    samples: int
    epochs: float
    fingerprint: str


def check_epochs(limits: float | Mapping[str, float] | None, table: Sequence[TableRow], samples: int) -> None:
    """Raises ConfigError, with the numbers, if a row has more epochs than its limit.

    Args:
        limits: One for all corpora, or by name; None: no limit.
        table: The mix over the whole run.
        samples: The samples of the whole run.
    """
    if isinstance(limits, Mapping):
        names = [row.name for row in table]
        for name in limits:
            if name not in names:
                raise ConfigError(f"max_epochs: {unknown_option(name, names)}")
    for row in table:
        limit = limits.get(row.name) if isinstance(limits, Mapping) else limits
        if limit is not None and row.epochs > limit:
            raise ConfigError(
                f"max_epochs: {samples} samples take {row.samples} from {row.name} ({row.tokens} tokens), which is "
                f"{row.epochs:.3f} epochs of it and {limit:g} are allowed; lower its weight or train on fewer samples"
            )
