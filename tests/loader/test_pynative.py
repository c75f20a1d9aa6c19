"""In MindFormers' PyNative trainer: its own loop and callbacks over our dataset, with steps that only keep the rows."""

import json
from pathlib import Path

import numpy as np
import pytest

pytestmark = pytest.mark.train

STEPS = 23


@pytest.fixture
def config(blend, tmp_path):
    """Ten steps of four samples an epoch."""
    dataloader = {"type": "BlendedMegatronDataLoader", **blend}
    return {
        "training": {"steps": STEPS, "global_batch_size": 4, "local_batch_size": 2},
        "train_dataset": {"dataloader": dataloader, "num_parallel_workers": 1, "prefetch_size": 1},
        "checkpoint": {"save_path": str(tmp_path / "checkpoint"), "load_path": ""},
    }


def run(config, init_step=0, stop=STEPS):
    """Goes through the trainer's own loop up to step ``stop``; returns the rows of each step, and the callback."""
    from types import SimpleNamespace

    from mindformers.pynative.callback.callback import CallbackHandler, TrainerCallback
    from mindformers.pynative.trainer.train_state import TrainerState
    from mindformers.pynative.trainer.trainer import Trainer

    from mindformers_megatron.loader.pynative import MegatronTrainerState, dataset_of
    from mindformers_megatron.settings.pynative import PynativeRun

    class Checkpoints(TrainerCallback):
        def on_step_end(self, args, state, **kwargs):
            if state.global_step % 4 == 0:
                folder = f"{config['checkpoint']['save_path']}/iteration_{state.global_step:08d}"
                Path(folder).mkdir(parents=True)

    class Loop(Trainer):
        """The trainer without a model: what it is given in a step is all that matters."""

        def __init__(self):
            data = PynativeRun.of(config)
            self.config, self.use_parallel, self.seen = SimpleNamespace(), False, []
            self.train_dataset = dataset_of(data, 0, 1)
            epoch = self.train_dataset.get_dataset_size()
            self.train_num_epochs = max(stop // epoch, 1)
            self.model = self.optimizer = SimpleNamespace(parameters=())
            self.state = TrainerState(epoch_step=epoch, max_steps=stop)
            self.callback = MegatronTrainerState(data.load_path, data.save_path)
            self.callback_handler = CallbackHandler([Checkpoints(), self.callback], train_dataset=self.train_dataset)
            if init_step:
                self.train_dataset.set_init_step(init_step)
                self.state.global_step = init_step

        def compute_loss(self, *inputs):
            raise AssertionError

        def training_step(self, model, inputs, grad_fn):
            self.seen.append(inputs["input_ids"].asnumpy())
            return 0.0, 0.0

    loop = Loop()
    loop.callback_handler.on_train_begin(loop.config, loop.state)
    loop._inner_train_loop()
    loop.callback_handler.on_train_end(loop.config, loop.state)
    return np.array(loop.seen), loop.callback.loader


def test_epochs_go_on_in_the_stream(config):
    seen, loader = run(config)
    expected = loader.plan.read(np.arange(STEPS * 4))["input_ids"].reshape(STEPS, 4, -1)
    np.testing.assert_array_equal(seen, expected)
    assert loader.consumed_samples == STEPS * 4


def test_a_resumed_run_goes_on_at_its_state_in_every_epoch_that_follows(config, tmp_path):
    whole, _ = run(config, stop=9)
    root = tmp_path / "checkpoint"
    (root / "latest_checkpointed_iteration.txt").write_text("8")
    saved = json.loads((root / "iteration_00000008" / "data_state.json").read_text())
    assert (saved["consumed_samples"], saved["history"]) == (32, [[0, 0, 4, 1]])
    resumed = {**config, "checkpoint": {"save_path": "", "load_path": str(root)}}
    resumed["checkpoint"]["save_path"] = str(tmp_path / "next")
    seen, loader = run(resumed, init_step=8)
    expected = loader.plan.read(np.arange(32, STEPS * 4))["input_ids"].reshape(STEPS - 8, 4, -1)
    np.testing.assert_array_equal(seen, expected)
    np.testing.assert_array_equal(whole[8], seen[0])


def test_segment_ends_count_on_inside_a_micro_batch_only():
    from mindformers_megatron.loader.pynative import count_on_in_micro_batches

    ends = np.array([[3, 8, 8], [8, 8, 8], [2, 5, 8], [8, 8, 8]], dtype=np.int32)
    expected = [[3, 8, 8], [16, 16, 16], [2, 5, 8], [16, 16, 16]]
    np.testing.assert_array_equal(count_on_in_micro_batches(ends, 2), expected)


def test_the_dataset_of_a_rank_has_its_columns_and_its_shard(config):
    from mindformers_megatron.loader.pynative import dataset_of
    from mindformers_megatron.settings.pynative import PynativeRun

    config["train_dataset"]["dataloader"] |= {"create_compressed_eod_mask": True, "eod_pad_length": 16}
    config["parallelism"] = {"tensor_parallel": 2, "data_parallel_shard": -1}
    config["training"] = {"steps": 3, "global_batch_size": 8, "local_batch_size": 2}
    batch = next(dataset_of(PynativeRun.of(config), 3, 4).create_dict_iterator(num_epochs=1, output_numpy=True))
    assert batch["input_ids"].shape == (4, 32) and batch["actual_seq_len"].shape == (4, 16)
    assert batch["actual_seq_len"][:, -1].tolist() == [32, 64, 32, 64]
