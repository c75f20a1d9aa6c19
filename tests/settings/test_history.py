"""The state says how a run was cut into steps, through changes of batch size and ranks, and what it took back."""

import pytest

from mindformers_megatron.errors import DataError
from mindformers_megatron.settings import history


def test_a_run_that_only_goes_on_stays_one_stretch_and_a_change_begins_another():
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


def test_differences_name_both_values():
    before, now = history.Stretch(0, 0, 8, 2), history.Stretch(80, 5, 16, 4)
    assert history.differences((before,), now) == [("samples of a step", 8, 16), ("ranks that share them", 2, 4)]
    assert history.differences((before,), before) == history.differences((), now) == []


def test_it_is_read_as_it_was_written_and_damage_is_one_line(tmp_path):
    path = tmp_path / "data_state.json"
    stretches = (history.Stretch(0, 0, 8, 2), history.Stretch(80, 5, 16, 4))
    assert history.from_plain(history.to_plain(stretches), path) == stretches
    assert history.from_plain(None, path) == ()
    for damage in ([[1, 2]], [[0, 0, 8, "2"]], [[0, 0, -8, 1]], [[0, 0, 0, 1]], [[0, 0, 8, 0]], [[0, 0, True, 1]], 7):
        with pytest.raises(DataError, match="expected a list of"):
            history.from_plain(damage, path)
    with pytest.raises(DataError, match="begin behind the one before"):
        history.from_plain([[80, 10, 8, 1], [80, 10, 16, 1]], path)
