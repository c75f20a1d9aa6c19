"""Tokenizers compared, as a picture."""

from collections.abc import Sequence
from pathlib import Path

from mindformers_megatron.errors import ConfigError
from mindformers_megatron.tokenization.evaluation.measure import Evaluation

_SUFFIXES = (".png", ".svg", ".pdf")
_BAR_INCHES = 0.22


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
    """Draws bytes per token: by source, and against the size of the vocabulary.

    Args:
        evaluations: on the same texts.
        path: the picture; its suffix says the format.
    """
    import io

    from matplotlib.figure import Figure

    from mindformers_megatron.format.atomic import write_atomically

    sources = evaluations[0].sources
    height = max(3.0, 1.0 + _BAR_INCHES * (len(evaluations) + 1) * len(sources))
    figure = Figure(figsize=(11, height), layout="constrained")
    bars, sizes = figure.subplots(1, 2, width_ratios=(3, 2))
    thickness = 1 / (len(evaluations) + 1)
    for number, evaluation in enumerate(evaluations):
        values = [evaluation.total(source=source).bytes_per_token for source in sources]
        places = [place + number * thickness for place in range(len(sources))]
        bars.barh(places, values, thickness, label=f"{evaluation.codec.name} ({evaluation.codec.vocab_size:,})")
    bars.set_yticks([place + (len(evaluations) - 1) * thickness / 2 for place in range(len(sources))], sources)
    bars.invert_yaxis()
    bars.set_xlabel("bytes per token")
    bars.legend(fontsize="small")
    for source in sources:
        in_order = sorted(evaluations, key=lambda evaluation: evaluation.codec.vocab_size)
        sizes.plot(
            [evaluation.codec.vocab_size for evaluation in in_order],
            [evaluation.total(source=source).bytes_per_token for evaluation in in_order],
            marker="o",
            label=source,
        )
    sizes.set_xscale("log", base=2)
    sizes.set_xlabel("ids in the vocabulary")
    sizes.set_ylabel("bytes per token")
    sizes.legend(fontsize="small")
    drawn = io.BytesIO()
    figure.savefig(drawn, format=path.suffix.lower()[1:])
    write_atomically(path, drawn.getvalue())
