"""MindFormers' PyNative trainer (``mindformers.pynative``, the trainer of 2.x): our data in it, and their state.

That trainer builds only loaders of its own from YAML, but takes a dataset. It makes a new iterator whenever one is
exhausted, over a dataset that still skips the steps it was resumed at; since every iterator of ours begins at the
cursor, whatever is skipped, it is enough to move the cursor with each step.
"""

import json
import logging
from pathlib import Path
from typing import Any

import mindspore.dataset as ms_dataset
import numpy as np
import numpy.typing as npt
from mindformers.pynative.callback.callback import TrainerCallback

from mindformers_megatron.errors import ConfigError
from mindformers_megatron.loader import checkpoints
from mindformers_megatron.loader.callbacks import find_loader
from mindformers_megatron.loader.loader import BlendedMegatronDataLoader
from mindformers_megatron.settings.history import Stretch, going_on
from mindformers_megatron.settings.pynative import PynativeRun
from mindformers_megatron.settings.yaml_file import Config

logger = logging.getLogger(__name__)

I32 = npt.NDArray[np.int32]


def dataset_of(run: PynativeRun, rank: int, ranks: int) -> Any:
    """The batches of a rank, as the trainer takes them: all rows of its step, whatever micro-batches it cuts them into.

    Raises:
        ConfigError: One line, for a bad option, or sizes that do not divide each other.
        DataError: One line, for a corpus that is missing or damaged.
    """
    groups = run.data_parallel(ranks)
    rows, micro_batches = run.rows_per_step(groups), run.micro_batches(groups)
    shard: dict[str, Any] = {"shard_id": run.shard(rank, ranks), "num_shards": groups}
    loader = BlendedMegatronDataLoader(**run.options, **shard, batch_size=rows)
    names = list(loader.plan.spec.columns)
    ms_dataset.config.set_prefetch_size(run.prefetch_size)
    if names[-1] != "actual_seq_len" or rows == micro_batches:
        return loader.batch(rows, drop_remainder=True)

    def count_on(ends: Any, _batch: Any) -> Any:
        return (list(count_on_in_micro_batches(np.stack(ends), micro_batches)),)

    return loader.batch(rows, drop_remainder=True, per_batch_map=count_on, input_columns=names[-1:])


def count_on_in_micro_batches(ends: I32, micro_batches: int) -> I32:
    """Lets the segment ends of rows count on from row to row inside each micro-batch: int32[B, K] → int32[B, K]."""
    grouped = ends.reshape(micro_batches, -1, ends.shape[1])
    before = np.cumsum(grouped[:, :, -1], axis=1) - grouped[:, :, -1]
    return (grouped + before[:, :, None]).reshape(ends.shape).astype(np.int32)


class MegatronTrainerState(TrainerCallback):  # type: ignore[misc]
    """Moves the cursor with each step, finds the data state of a resumed run, and saves it in each checkpoint.

    For ``mindformers.pynative``'s ``Trainer(config, train_dataset=…, callbacks=[MegatronTrainerState(rank=…)])``; the
    graph mode's trainer has ``MegatronDataState``.
    """

    def __init__(self, load_path: str = "", save_path: str = "", rank: int = 0) -> None:
        """Opens nothing yet.

        Args:
            load_path: The checkpoint, or the folder of checkpoints, that the run is resumed from; empty: none.
            save_path: Where checkpoints are written; empty: nowhere.
            rank: This rank; 0 writes.
        """
        super().__init__()
        self.load_path, self.save_path, self.rank = load_path, save_path, rank
        self.loader: BlendedMegatronDataLoader | None = None
        self._start = self._init_step = 0
        self._history: tuple[Stretch, ...] = ()
        self._saved_step = -1

    def on_train_begin(self, args: Any, state: Any, **kwargs: Any) -> None:
        """Finds the loader, and the state that it goes on from."""
        self.loader = loader = find_loader(kwargs["train_dataset"])
        if loader is None:
            logger.warning("MegatronTrainerState: the training data come from no loader of this package")
            return
        self._init_step, size = int(state.global_step), loader.global_batch_size
        if self._init_step and self.load_path:
            found = checkpoints.find(Path(self.load_path), self.rank, None, self._init_step, size)
            if found is None:
                logger.warning("no data state beside the checkpoint of step %d in %s", self._init_step, self.load_path)
            else:
                self._history = found.saved.history
                loader.load_state_dict(json.loads(found.saved.state.to_json()))
                loader.consumed_samples += found.missing
        self._start = loader.first_sample(self._init_step, size)
        loader.consumed_samples = self._start
        self._history = going_on(self._history, Stretch(self._start, self._init_step, size, loader.shard.ranks))
        if self._init_step:
            logger.info("data goes on at sample %d, step %d", self._start, self._init_step)

    def on_step_end(self, args: Any, state: Any, **kwargs: Any) -> None:
        """Moves the cursor by one global batch; saves it if the trainer has just written a checkpoint."""
        if self.loader is not None:
            steps = int(state.global_step) - self._init_step
            self.loader.consumed_samples = self._start + steps * self.loader.global_batch_size
            self._save(int(state.global_step))

    def on_train_end(self, args: Any, state: Any, **kwargs: Any) -> None:
        """Saves the state of the checkpoint that ends a training."""
        if self.loader is not None:
            self._save(int(state.global_step))

    def _save(self, step: int) -> None:
        # The trainer's own callbacks come before those it is given, so its checkpoint is there already.
        assert self.loader is not None
        checkpoint = Path(self.save_path) / f"iteration_{step:08d}"
        if self.rank or not self.save_path or step == self._saved_step or not checkpoint.is_dir():
            return
        self._saved_step = step
        state = self.loader.plan.state(self.loader.consumed_samples)
        checkpoints.save(checkpoint, state, step, self.loader.global_batch_size, self._history)


def train(config: Config) -> None:
    """Trains as the YAML of a PyNative training says.

    Raises:
        ConfigError: One line, where this MindFormers has no such trainer, and for a bad option.
        DataError: One line, for a file that is missing or damaged.
    """
    try:
        from mindformers.pynative.trainer.trainer import Trainer
        from mindspore.communication import get_rank
    except ImportError as error:
        raise ConfigError(f"a YAML with a section training needs mindformers' PyNative trainer ({error})") from error
    run = PynativeRun.of(config)
    ranks = run.ranks()
    if ranks > 1:
        from mindspore.communication import init

        init()
    rank = get_rank() if ranks > 1 else 0
    callback = MegatronTrainerState(run.load_path, run.save_path, rank)
    trainer = Trainer(config=run.for_trainer(), train_dataset=dataset_of(run, rank, ranks), callbacks=[callback])
    trainer.train()
