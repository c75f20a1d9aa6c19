"""Each step of a training leaves one whole line with its loss and what it was given."""

import json

import numpy as np
import pytest

pytestmark = pytest.mark.train

ROWS = np.arange(24, dtype=np.float32).reshape(12, 2) / 7


def train(path, columns=(), *, sink_mode=False):
    """Trains one layer on ``ROWS``, three rows a step, with MindSpore's own loop; returns the losses it computed."""
    import mindspore
    from mindspore import nn
    from mindspore.dataset import NumpySlicesDataset
    from mindspore.train import Callback, Model

    from mindformers_megatron.loader.step_log import MegatronStepLog

    class Losses(Callback):
        def __init__(self):
            self.found = []

        def on_train_step_end(self, run_context):
            self.found.append(float(run_context.original_args().net_outputs.asnumpy()))

    mindspore.set_seed(1)
    network = nn.Dense(2, 1)
    model = Model(network, nn.MSELoss(), nn.Adam(network.trainable_params()))
    data = NumpySlicesDataset((ROWS, ROWS[:, :1]), ["x", "y"], shuffle=False).batch(3)
    losses = Losses()
    model.train(1, data, callbacks=[losses, MegatronStepLog(str(path), columns)], dataset_sink_mode=sink_mode)
    return losses.found


def read(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_a_line_holds_step_loss_and_the_rows_the_network_was_given(tmp_path):
    path = tmp_path / "new" / "steps.jsonl"
    losses = train(path, ["x"])
    records = read(path)
    assert [record["step"] for record in records] == [1, 2, 3, 4]
    assert [record["loss"] for record in records] == losses
    assert np.array_equal(np.float32([row for record in records for row in record["x"]]), ROWS)
    assert all(set(record) == {"step", "loss", "x"} for record in records)


@pytest.mark.parametrize("left", ["", '{"step": 3, "lo', '{"step": 3, "x": [' + "0, " * 50_000])
def test_what_a_killed_run_left_unfinished_is_removed_and_whole_lines_stay(tmp_path, left):
    path = tmp_path / "steps.jsonl"
    whole = '{"step": 1, "loss": 2.0}\n{"step": 2, "loss": 1.0}\n'
    path.write_text(whole + left)
    train(path)
    assert path.read_text().startswith(whole + '{"step": 1, ')
    assert len(read(path)) == 6


def test_a_log_of_one_unfinished_line_begins_anew(tmp_path):
    path = tmp_path / "steps.jsonl"
    path.write_text('{"step": 1, "x": [' + "0, " * 50_000)
    train(path)
    assert [record["step"] for record in read(path)] == [1, 2, 3, 4]


def test_a_column_that_is_not_there_is_named_before_the_first_step(tmp_path):
    with pytest.raises(ValueError, match="no column tokens in the batches, which have x, y"):
        train(tmp_path / "steps.jsonl", ["tokens"])
