"""Charts of a page: lines over time, bars, histograms, as figures of plotly."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

from kcli.spark.pipelines.result import ms_of
from kcli.text import format_time

MOST_SERIES = 20
_COLOURS = 10  # of plotly; the lines after them have the same colours, and another dash
_DASHES = ("solid", "dot", "dash")
Points = list[tuple[str, float]]


def series_of(rows: Iterable[Mapping[str, Any]], by: Sequence[str], x: str, y: str) -> dict[str, Points]:
    """Return the points (x, y) of each combination of the columns `by`, in row order. Rows without x or y are
    skipped.
    """
    series: dict[str, Points] = {}
    for row in rows:
        if row.get(x) is not None and row.get(y) is not None:
            name = " ".join("none" if row.get(column) is None else str(row[column]) for column in by) or "all"
            series.setdefault(name, []).append((row[x], row[y]))
    return series


def largest(series: Mapping[str, Points], max_series: int = MOST_SERIES) -> dict[str, Points]:
    """Return the series with the largest sums; more lines than these cannot be distinguished."""
    chosen = sorted(series, key=lambda name: -sum(y for _, y in series[name]))[:max_series]
    return {name: series[name] for name in chosen}


def series_note(shown: object, series: object) -> str:
    count, total = len(shown), len(series)  # type: ignore[arg-type]
    return f"The {count} largest of {total:,}." if count < total else ""


def with_zeros(points: Points, step_ms: int) -> Points:
    """Add zeros at both ends of a gap, so that no line is drawn across it."""
    result: Points = []
    for x, y in points:
        if result and ms_of(x) - ms_of(result[-1][0]) > step_ms * 1.5:
            result += [(format_time(ms_of(result[-1][0]) + step_ms), 0), (format_time(ms_of(x) - step_ms), 0)]
        result.append((x, y))
    return result


def lines(series: Mapping[str, Points], unit: str) -> Any:
    """Return a chart with a line for each series, over time."""
    import plotly.graph_objects as go

    figure = go.Figure()
    for number, (name, points) in enumerate(series.items()):
        x, y = [x for x, _ in points], [y for _, y in points]
        mode = "lines" if len(points) > 1 else "markers"
        style = {"dash": _DASHES[number // _COLOURS % len(_DASHES)]}
        figure.add_trace(go.Scatter(x=x, y=y, mode=mode, line=style, name=escape(name, quote=False)))
    figure.update_xaxes(title_text="UTC")
    return _with_layout(figure, unit, legend=len(series) > 1)


def bars(names: Sequence[str], values: Sequence[float | None], unit: str) -> Any:
    """Return a chart with a bar for each name, in this order."""
    import plotly.graph_objects as go

    labels = [escape(name if len(name) <= 40 else name[:39] + "…", quote=False) for name in names]
    positions = list(range(len(names)))  # by index, because two long names may be shortened to the same label
    hover = [escape(name[:200], quote=False) for name in names]
    figure = go.Figure(go.Bar(x=positions, y=list(values), hovertext=hover))
    figure.update_xaxes(tickmode="array", tickvals=positions, ticktext=labels)
    return _with_layout(figure, unit)


def histogram(counts: Mapping[int, int], unit: str, *, max_bars: int = 60) -> Any:
    """Return a histogram of sizes; adjacent sizes are joined if there are many."""
    names, values = binned(counts, max_bars)
    return bars(names, values, unit)


def binned(counts: Mapping[int, int], max_bins: int) -> tuple[list[str], list[int]]:
    """Return at most `max_bins` bins, each of a width that is a power of 2. Pure."""
    low, high, width = min(counts, default=0), max(counts, default=0), 1
    while high // width - low // width + 1 > max_bins:
        width *= 2
    first = low // width
    bins = [0] * (high // width - first + 1)
    for size, count in counts.items():
        bins[size // width - first] += count
    starts = [(first + place) * width for place in range(len(bins))]
    return [str(start) if width == 1 else f"{start}–{start + width - 1}" for start in starts], bins


def _with_layout(figure: Any, unit: str, *, legend: bool = False) -> Any:
    figure.update_layout(
        template="plotly_white", height=380, margin={"l": 60, "r": 20, "t": 20, "b": 60}, showlegend=legend
    )
    figure.update_yaxes(title_text=unit, rangemode="tozero")
    return figure
