"""The callback that saves the data state beside each checkpoint of MindFormers."""

import logging
from pathlib import Path
from typing import Any

from mindformers.core.callback import CheckpointMonitor
from mindformers.tools.utils import get_output_subpath, get_real_rank
from mindspore.train import Callback

from mindformers_megatron.loader import checkpoints
from mindformers_megatron.loader.agreement import prove_agreement
from mindformers_megatron.loader.loader import BlendedMegatronDataLoader
from mindformers_megatron.settings.history import Stretch, going_on

logger = logging.getLogger(__name__)


class MegatronDataState(Callback):  # type: ignore[misc]
    """Counts the samples that steps have been given, and saves the data state beside each checkpoint.

    ``mfm train`` adds it by itself; elsewhere the YAML names it: ``callbacks: [{type: MegatronDataState}]``. It works
    in both checkpoint layouts and needs ``CheckpointMonitor``. It only writes: the loader of a resumed run finds the
    state by itself, because in sink mode rows are read before any callback is called.
    """

    def __init__(self) -> None:
        """Sets up a callback without a loader; ``on_train_begin`` finds it."""
        super().__init__()
        self.loader: BlendedMegatronDataLoader | None = None
        self._start = 0
        self._history: tuple[Stretch, ...] = ()
        self._saved_step = -1

    def on_train_begin(self, run_context: Any) -> None:
        """Finds the loader in the pipeline that is about to be read, and compares what all ranks are about to read.

        Raises:
            ConfigError: One line, where ranks read different plans, or the same rows; see ``agreement``.
        """
        params = run_context.original_args()
        self.loader = find_loader(params.train_dataset)
        if self.loader is None:
            logger.warning("MegatronDataState: the training data come from no loader of this package; nothing to save")
            return
        init_step, size = params.train_dataset.get_init_step(), self.loader.global_batch_size
        self._start = self.loader.first_sample(init_step, size)
        now = Stretch(self._start, init_step, size, self.loader.shard.ranks)
        self._history = going_on(self.loader.cursor.history, now)
        prove_agreement(self.loader, self._start)

    def on_train_step_end(self, run_context: Any) -> None:
        """Moves the cursor by one global batch; saves it if a checkpoint was just written."""
        if self.loader is not None:
            params = run_context.original_args()
            self.loader.consumed_samples = self._start + params.cur_step_num * self.loader.global_batch_size
            self._save(params)

    def on_train_end(self, run_context: Any) -> None:
        """Saves the state of the checkpoint that ends a training."""
        if self.loader is not None:
            self._save(run_context.original_args())

    def _save(self, params: Any) -> None:
        # MindFormers runs callbacks it does not know after CheckpointMonitor, so what it has just written is known.
        assert self.loader is not None
        for monitor in params.list_callback:
            if not isinstance(monitor, CheckpointMonitor) or monitor._last_triggered_step != params.cur_step_num:
                continue
            if self._saved_step == params.cur_step_num:
                continue
            self._saved_step = params.cur_step_num
            step = monitor._append_step_num + params.cur_step_num
            # MindFormers 1.6 has no other layout, and does not say so.
            if getattr(monitor, "use_legacy_format", True):
                checkpoint = Path(monitor.latest_ckpt_file_name)
            elif get_real_rank() == 0:
                root = monitor.directory or get_output_subpath("checkpoint", append_rank=False)
                checkpoint = Path(root) / f"iteration_{step:08d}"
            else:
                continue
            state = self.loader.plan.state(self.loader.consumed_samples)
            checkpoints.save(checkpoint, state, step, self.loader.global_batch_size, self._history)


def find_loader(dataset: Any) -> BlendedMegatronDataLoader | None:
    """The loader at the end of a pipeline; None where it begins with another dataset."""
    while dataset is not None and not isinstance(dataset, BlendedMegatronDataLoader):
        dataset = dataset.children[0] if len(dataset.children) == 1 else None
    return dataset
