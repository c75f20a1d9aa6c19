"""Without MindFormers: ``Model.train`` and a loop of one's own, stopped and restored by three lines."""

import json

import numpy as np
import pytest
from networks import model_of

pytestmark = pytest.mark.train

# More workers than cores are cut down to the cores.
WORKERS = [(1, False), (2, False), (4, False), (2, True), (4, True)]


def build(blend, **options):
    from mindformers_megatron.loader import BlendedMegatronDataLoader

    columns = ["input_ids", "labels"]
    return BlendedMegatronDataLoader(**blend, column_names=columns, micro_batch_size=4, **options)


def rows_of(plan, first, steps):
    return plan.read(np.arange(first * 4, (first + steps) * 4))["input_ids"].reshape(steps, 4, -1)


@pytest.mark.parametrize(("workers", "processes"), WORKERS)
def test_a_loop_goes_on_behind_its_last_step_whatever_was_read_ahead(blend, tmp_path, workers, processes):
    """An epoch has ten steps; the loop is stopped inside the first and inside the second."""
    options = {"num_parallel_workers": workers, "python_multiprocessing": processes}
    path = tmp_path / "state.json"
    seen = []
    for stop in (3, 14, 17):
        loader = build(blend, **options)
        if path.exists():
            loader.load_state_dict(json.loads(path.read_text()))
        batches = loader.batch(4).create_dict_iterator(num_epochs=-1, output_numpy=True)
        while len(seen) < stop:
            for batch in batches:
                seen.append(batch["input_ids"])
                loader.consumed_samples += loader.global_batch_size
                path.write_text(json.dumps(loader.state_dict()))
                if len(seen) == stop:
                    break
    np.testing.assert_array_equal(seen, rows_of(loader.plan, 0, 17))


def test_model_train_goes_on_with_the_same_samples_and_losses(blend, tmp_path):
    from mindspore.train import Callback

    from mindformers_megatron.loader import MegatronDataState, MegatronStepLog

    class Stop(Callback):
        def __init__(self, step):
            self.step = step

        def on_train_step_end(self, run_context):
            if run_context.original_args().cur_step_num == self.step:
                run_context.request_stop()

    def train(model, loader, log, *callbacks, epochs=2):
        callbacks = [MegatronDataState(), MegatronStepLog(str(tmp_path / log), ["input_ids"]), *callbacks]
        model.train(epochs, loader.batch(4), callbacks, dataset_sink_mode=False)
        return [json.loads(line) for line in (tmp_path / log).read_text().splitlines()]

    whole = train(model_of(), build(blend), "whole.jsonl")
    assert len(whole) == 20

    model, loader = model_of(), build(blend)
    first = train(model, loader, "first.jsonl", Stop(13))
    state = json.loads(json.dumps(loader.state_dict()))
    assert state["consumed_samples"] == 13 * 4
    resumed = build(blend)
    resumed.load_state_dict(state)
    # What is left of two epochs; MindSpore begins an epoch of its own.
    rest = train(model, resumed, "rest.jsonl", Stop(7))
    for name in ("input_ids", "loss"):
        assert [record[name] for record in first + rest] == [record[name] for record in whole]
