"""The share of each corpus over the run, as lines."""

from collections.abc import Sequence
from dataclasses import dataclass

from mindformers_megatron.report.run_mix import RunMix, Stretch

WIDTH, HEIGHT = 600, 90
# A range below this would make the rounding of whole samples look like drift.
_LEAST_RANGE = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class LineChart:
    """A chart of one corpus, in a box of ``WIDTH`` by ``HEIGHT``.

    Attributes:
        name: The corpus.
        low: The share at the bottom.
        high: The share at the top.
        given: Points of the line, as SVG has them.
        asked: Points of the line of what was asked.
        recorded: Centres of what the run wrote down.
        here: Where the run is, from the left; None: nowhere yet.
    """

    name: str
    low: float
    high: float
    given: str
    asked: str
    recorded: tuple[tuple[float, float], ...]
    here: float | None


def line_charts(mix: RunMix) -> tuple[LineChart, ...]:
    """A chart for each corpus of a run."""
    end = mix.stretches[-1].end
    recorded = _thinned(mix.recorded.stretches) if mix.recorded else ()
    return tuple(
        _chart(row.name, place, mix.stretches, recorded, end, mix.reached) for place, row in enumerate(mix.so_far)
    )


def _chart(
    name: str, place: int, stretches: Sequence[Stretch], recorded: Sequence[Stretch], end: int, reached: int
) -> LineChart:
    shares = [share for stretch in stretches for share in (stretch.asked[place], stretch.given[place])]
    shares += [stretch.given[place] for stretch in recorded]
    middle, half = (min(shares) + max(shares)) / 2, max(_LEAST_RANGE, 1.2 * (max(shares) - min(shares))) / 2
    low, high = max(0.0, middle - half), min(1.0, middle + half)

    def point(sample: float, share: float) -> tuple[float, float]:
        return round(WIDTH * sample / end, 1), round(HEIGHT * (high - share) / (high - low), 1)

    def line(values: Sequence[float]) -> str:
        corners = [
            point(sample, share)
            for stretch, share in zip(stretches, values, strict=True)
            for sample in (stretch.begin, stretch.end)
        ]
        return " ".join(f"{x},{y}" for x, y in corners)

    return LineChart(
        name=name,
        low=low,
        high=high,
        given=line([stretch.given[place] for stretch in stretches]),
        asked=line([stretch.asked[place] for stretch in stretches]),
        recorded=tuple(point((one.begin + one.end) / 2, one.given[place]) for one in recorded),
        here=round(WIDTH * reached / end, 1) if reached else None,
    )


def _thinned(stretches: Sequence[Stretch], most: int = 60) -> Sequence[Stretch]:
    """At most so many stretches, neighbours put together."""
    size = -(-len(stretches) // most)
    return [_together(stretches[first : first + size]) for first in range(0, len(stretches), size)]


def _together(parts: Sequence[Stretch]) -> Stretch:
    samples = sum(part.end - part.begin for part in parts)

    def mean(rows: Sequence[Sequence[float]]) -> tuple[float, ...]:
        weighted = zip(
            *([share * (p.end - p.begin) for share in row] for row, p in zip(rows, parts, strict=True)), strict=True
        )
        return tuple(sum(column) / samples for column in weighted)

    return Stretch(parts[0].begin, parts[-1].end, mean([p.asked for p in parts]), mean([p.given for p in parts]))
