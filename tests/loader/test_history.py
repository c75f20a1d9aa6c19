"""The state says how a run was cut into steps, through changes of batch size and ranks, and what it took back."""

import json

import pytest

from mindformers_megatron.errors import DataError

pytestmark = pytest.mark.train


@pytest.fixture
def history():
    from mindformers_megatron.loader import history

    return history


def test_a_run_that_only_goes_on_stays_one_stretch_and_a_change_begins_another(history):
    first = history.Stretch(0, 0, 8, 2)
    assert history.going_on((), first) == (first,)
    assert history.going_on((first,), history.Stretch(80, 10, 8, 2)) == (first,)
    doubled = history.Stretch(80, 5, 16, 2)
    assert history.going_on((first,), doubled) == (first, doubled)
    assert history.going_on((first, doubled), history.Stretch(112, 7, 16, 2)) == (first, doubled)
    # Resumed from an older checkpoint, before the change.
    assert history.going_on((first, doubled), history.Stretch(40, 5, 8, 2)) == (first,)
    # Steps counted otherwise, as after data_skip_steps.
    assert len(history.going_on((first,), history.Stretch(88, 10, 8, 2))) == 2


def test_differences_name_both_values(history):
    before, now = history.Stretch(0, 0, 8, 2), history.Stretch(80, 5, 16, 4)
    assert history.differences((before,), now) == [("samples of a step", 8, 16), ("ranks that share them", 2, 4)]
    assert history.differences((before,), before) == history.differences((), now) == []


def test_it_is_read_as_it_was_written_and_damage_is_one_line(history, tmp_path):
    path = tmp_path / "data_state.json"
    stretches = (history.Stretch(0, 0, 8, 2), history.Stretch(80, 5, 16, 4))
    path.write_text(json.dumps({"history": history.to_plain(stretches)}))
    assert history.read_history(path) == stretches
    path.write_text("{}")
    assert history.read_history(path) == ()
    for damage in ([[1, 2]], [[0, 0, 8, "2"]], [[0, 0, -8, 1]], 7):
        path.write_text(json.dumps({"history": damage}))
        with pytest.raises(DataError, match="expected a list of"):
            history.read_history(path)
