"""A line for each step, for programs to read: the loss with all its digits, and the very tokens the step was given."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from mindformers.tools.utils import get_real_rank
from mindspore.train import Callback

from mindformers_megatron.errors import ConfigError
from mindformers_megatron.loader.json_lines import JsonLines


class MegatronStepLog(Callback):  # type: ignore[misc]
    """Appends a JSON line to a file at the end of each step: ``step``, ``loss``, and the columns asked for.

    What is logged of the data is what the network was given, not what was meant to be read. A killed process leaves at
    most one unfinished line, which the next one removes; each line is handed to the system before the next step begins.

    YAML: ``callbacks: [{type: MegatronStepLog, path: steps.jsonl, columns: [input_ids]}]``.
    """

    def __init__(self, path: str, columns: Sequence[str] = ()) -> None:
        """Opens nothing yet.

        Args:
            path: The file; ranks other than 0 put ``.rank_R`` before its suffix.
            columns: Columns of the batch to be logged, as lists of rows. With ``sink_mode`` there are none to be had.
        """
        super().__init__()
        rank = get_real_rank()
        own = Path(path) if rank == 0 else Path(path).with_suffix(f".rank_{rank}{Path(path).suffix}")
        self.lines = JsonLines(own)
        self.columns = tuple(columns)
        self._places: list[int] = []
        self._first_step = 0

    def on_train_begin(self, run_context: Any) -> None:
        """Removes what a killed process left unfinished.

        Raises:
            ConfigError: One line, for columns that the batches do not have, or that sink mode hides.
        """
        params = run_context.original_args()
        self._first_step = params.train_dataset.get_init_step()
        if self.columns:
            names = params.train_dataset.get_col_names()
            missing = [name for name in self.columns if name not in names]
            if missing:
                raise ConfigError(
                    f"MegatronStepLog: no column {missing[0]} in the batches, which have {', '.join(names)}"
                )
            if params.dataset_sink_mode:
                raise ConfigError("MegatronStepLog: with sink_mode: True batches cannot be logged; leave columns out")
            self._places = [names.index(name) for name in self.columns]
        self.lines.open()

    def on_train_step_end(self, run_context: Any) -> None:
        """Writes the line."""
        params = run_context.original_args()
        record = {"step": self._first_step + params.cur_step_num, "loss": _loss(params.net_outputs)}
        for name, place in zip(self.columns, self._places, strict=True):
            record[name] = params.train_dataset_element[place].asnumpy().tolist()
        self.lines.write(record)


def _loss(outputs: Any) -> float:
    # A training step gives (loss, overflow, scale, …) or the loss alone. A float32 fits a Python float exactly, and
    # JSON keeps all its digits.
    loss = outputs[0] if isinstance(outputs, tuple | list) else outputs
    return float(np.mean(loss.asnumpy()))
