"""What the demo's models train, and for how long."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from string import Template

from mindformers_megatron.demo.folder import RunFiles
from mindformers_megatron.errors import ConfigError
from mindformers_megatron.format.atomic import write_atomically

# The corpora and the share of the rows that each is to give.
CORPORA = {"prose": 0.5, "code": 0.3, "manuals": 0.2}
BATCH_SIZE = 8
SEQ_LENGTH = 128
_LEAST_STEPS = 10


@dataclass(frozen=True, slots=True)
class Schedule:
    """When what happens in a run.

    Attributes:
        steps: training steps in all.
    """

    steps: int

    def __post_init__(self) -> None:
        if self.steps < _LEAST_STEPS:
            raise ConfigError(
                f"{self.steps} steps leave no room for a kill between two checkpoints; give {_LEAST_STEPS} or more"
            )

    @property
    def checkpoint_every(self) -> int:
        """Steps from one checkpoint to the next; two fit."""
        return self.steps * 5 // 12

    @property
    def kill_after(self) -> int:
        """The step to be killed after: as far from the checkpoint before as from the one to come."""
        return self.checkpoint_every + self.checkpoint_every // 2


def write_config(run: RunFiles, schedule: Schedule, pairs: Mapping[str, str], vocab_size: int) -> None:
    """Writes the YAML of a run: package data, with the values of this run filled in.

    Args:
        run: the run.
        schedule: how long it is, and when it saves.
        pairs: name and prefix of each corpus.
        vocab_size: ids that the model is to know.
    """
    template = Template(files(__package__).joinpath("llama_cpu.yaml").read_text(encoding="utf-8"))
    values = {
        "output_dir": str(run.output),
        "checkpoints": str(run.checkpoints),
        "step_log": str(run.steps),
        "dataset_dir": list(pairs.values()),
        "dataset_names": list(pairs),
        "dataset_weights": [CORPORA[name] for name in pairs],
        "num_samples": schedule.steps * BATCH_SIZE,
        "batch_size": BATCH_SIZE,
        "seq_length": SEQ_LENGTH,
        "checkpoint_every": schedule.checkpoint_every,
        "vocab_size": vocab_size,
    }
    # JSON is YAML: whatever a path holds, it is quoted right.
    text = template.substitute({name: json.dumps(value, ensure_ascii=False) for name, value in values.items()})
    write_atomically(run.config, text.encode())
