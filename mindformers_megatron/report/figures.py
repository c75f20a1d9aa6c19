"""The mix and the lengths as pictures, for those who put them into documents."""

import io
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mindformers_megatron.format.atomic import write_atomically
from mindformers_megatron.report.run_mix import RunMix

if TYPE_CHECKING:
    from mindformers_megatron.report.html.page import PairSummary

_LINE, _QUIET = "#2458b3", "#7a8290"
_DPI = 150
# What the files of fonts that have Chinese are called, the best to look at first.
_CHINESE = ("NotoSansCJK-Regular", "SourceHanSans", "NotoSansCJK", "wqy", "simhei", "msyh", "PingFang", "CJK")


def draw_figures(mix: RunMix | None, pairs: Sequence["PairSummary"], folder: Path) -> list[Path]:
    """Draws ``mix.png`` and ``lengths.png``, as far as there is something to draw.

    Args:
        mix: Of a run.
        pairs: The corpora.
        folder: Takes the pictures.

    Returns:
        The pictures drawn.
    """
    drawn = []
    if mix is not None:
        drawn.append(_draw(folder / "mix.png", len(mix.so_far), 1.5, lambda axes: _draw_mix(mix, axes)))
    counted = [pair for pair in pairs if pair.lengths.documents]
    if counted:
        drawn.append(_draw(folder / "lengths.png", len(counted), 2.0, lambda axes: _draw_lengths(counted, axes)))
    return drawn


def _draw(path: Path, rows: int, height: float, fill: Callable[[Any], None]) -> Path:
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    picture = io.BytesIO()
    with rc_context({"font.family": _families()}), warnings.catch_warnings():
        # A name in a script that no font here has is boxes; that is seen, and said by nobody else.
        warnings.filterwarnings("ignore", message="Glyph")
        figure = Figure(figsize=(9, 0.7 + height * rows), layout="constrained")
        fill(figure.subplots(rows, 1, sharex=True, squeeze=False)[:, 0])
        figure.savefig(picture, format="png", dpi=_DPI)
    write_atomically(path, picture.getvalue())
    return path


def _families() -> list[str]:
    """Matplotlib's own font, and behind it one that has Chinese, if there is any."""
    from matplotlib.font_manager import FontProperties, findSystemFonts, fontManager

    # Not from its own list, which it made when it was first used and makes again for no newer font.
    files = sorted(findSystemFonts())
    found = next((file for part in _CHINESE for file in files if part.lower() in Path(file).name.lower()), None)
    if found is None:
        return ["DejaVu Sans"]
    fontManager.addfont(found)
    return ["DejaVu Sans", FontProperties(fname=found).get_name()]


def _draw_mix(mix: RunMix, axes: Any) -> None:
    edges = [stretch.begin for stretch in mix.stretches] + [mix.stretches[-1].end]
    for place, (row, axis) in enumerate(zip(mix.so_far, axes, strict=True)):
        axis.stairs([100 * one.asked[place] for one in mix.stretches], edges, baseline=None, color=_QUIET, ls="--")
        axis.stairs([100 * one.given[place] for one in mix.stretches], edges, baseline=None, color=_LINE)
        low, high = axis.get_ylim()
        # A narrower range would make the rounding of whole samples look like drift.
        axis.set_ylim(min(low, 100 * row.asked - 1), max(high, 100 * row.asked + 1))
        _tidy(axis, f"{row.name}: {row.given:.2%} delivered, {row.asked:.2%} asked", "% of samples")
        if mix.reached:
            axis.axvline(mix.reached, color=_QUIET, lw=0.8)
    axes[-1].set_xlabel("samples")


def _draw_lengths(pairs: Sequence["PairSummary"], axes: Any) -> None:
    for pair, axis in zip(pairs, axes, strict=True):
        counts = pair.lengths.counts
        edges = [0, *(1 << bits for bits in range(max(counts) + 1))]
        axis.stairs([counts.get(bits, 0) for bits in range(max(counts) + 1)], edges, fill=True, color=_LINE)
        axis.set_xscale("symlog", base=2, linthresh=1)
        title = f"{pair.name}: {pair.lengths.documents:,} documents, median {pair.lengths.median:,} tokens"
        _tidy(axis, title, "documents")
    axes[-1].set_xlabel("tokens of a document")


def _tidy(axis: Any, title: str, label: str) -> None:
    # Names are not formulas, whatever dollar signs are in them.
    axis.set_title(title, loc="left", fontsize=10, parse_math=False)
    axis.set_ylabel(label, fontsize=9)
    axis.spines[["top", "right"]].set_visible(False)
