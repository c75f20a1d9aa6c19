"""Tokenizers compared, as a picture."""

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mindformers_megatron.errors import ConfigError
from mindformers_megatron.format.atomic import write_atomically
from mindformers_megatron.tokenization.evaluation.measure import Evaluation

_SUFFIXES = (".png", ".svg", ".pdf")
_BAR_INCHES = 0.22
_LABEL_CHARACTERS = 24


def check_plot(path: Path) -> None:
    """Looks whether a picture can be drawn, to know before the work.

    Raises:
        ConfigError: its format is unknown, or matplotlib is not there.
    """
    if path.suffix.lower() not in _SUFFIXES:
        raise ConfigError(f"{path}: a picture ends in one of: {', '.join(_SUFFIXES)}")
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise ConfigError(
            "drawing a picture needs matplotlib; pip install 'mindformers-megatron[report]', or leave --plot out"
        ) from None


def plot_evaluations(evaluations: Sequence[Evaluation], path: Path) -> None:
    """Draws bytes per token: of each source, and of all text against the size of the vocabulary.

    Args:
        evaluations: on the same texts.
        path: the picture; its suffix says the format.
    """
    from matplotlib.figure import Figure

    height = max(3.5, 1.5 + _BAR_INCHES * (len(evaluations) + 1) * len(evaluations[0].sources))
    figure = Figure(figsize=(11, height), layout="constrained")
    by_source, by_size = figure.subplots(1, 2, width_ratios=(3, 2))
    _draw_sources(by_source, evaluations)
    _draw_sizes(by_size, evaluations)
    drawn = io.BytesIO()
    figure.savefig(drawn, format=path.suffix.lower()[1:])
    write_atomically(path, drawn.getvalue())


def _draw_sources(axes: Any, evaluations: Sequence[Evaluation]) -> None:
    sources = evaluations[0].sources
    thickness = 1 / (len(evaluations) + 1)
    for number, evaluation in enumerate(evaluations):
        values = [evaluation.total(source=source).bytes_per_token for source in sources]
        places = [place + number * thickness for place in range(len(sources))]
        axes.barh(places, values, thickness, label=_short(evaluation.codec.name))
    middle = (len(evaluations) - 1) * thickness / 2
    axes.set_yticks([place + middle for place in range(len(sources))], sources)
    axes.invert_yaxis()
    axes.set_xlabel("bytes per token")
    # Above the bars: inside, it would hide some.
    axes.legend(fontsize="small", loc="lower left", bbox_to_anchor=(0, 1), ncols=3)


def _draw_sizes(axes: Any, evaluations: Sequence[Evaluation]) -> None:
    for family in dict.fromkeys(evaluation.codec.family for evaluation in evaluations):
        points = sorted(
            (evaluation.codec.vocab_size, evaluation.total().bytes_per_token)
            for evaluation in evaluations
            if evaluation.codec.family == family
        )
        axes.plot(*zip(*points, strict=True), marker="o", label=_short(family))
    sizes = sorted({evaluation.codec.vocab_size for evaluation in evaluations})
    axes.set_xscale("log")
    axes.set_xticks(sizes, [f"{size:,}" for size in sizes], rotation=45, ha="right")
    axes.minorticks_off()
    axes.set_xlabel("ids in the vocabulary")
    axes.set_ylabel("bytes per token, all text")
    axes.legend(fontsize="small", loc="lower left", bbox_to_anchor=(0, 1))


def _short(name: str) -> str:
    """The end of a path, which is what tells one from the other."""
    return name if len(name) <= _LABEL_CHARACTERS else "…" + name[-_LABEL_CHARACTERS:]
