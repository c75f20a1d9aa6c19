"""Pictures are drawn whatever the corpora are called."""

import warnings
from pathlib import Path
from typing import Any

import pytest

from mindformers_megatron import SamplePlan
from mindformers_megatron.report.figures import draw_figures
from mindformers_megatron.report.run_mix import run_mix


def test_names_in_any_script_are_drawn_without_a_word(blend: dict[str, Any], tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    plan = SamplePlan.build(**blend, dataset_names=["百科", "$\\frac{", "ᚠᚢᚦ"])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        (picture,) = draw_figures(run_mix(plan, 1000, 400), [], tmp_path)
    assert picture.read_bytes().startswith(b"\x89PNG")
